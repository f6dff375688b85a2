module github.com/kueue-check/kueue-check/sdk/go

go 1.22
