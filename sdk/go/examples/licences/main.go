// A job starts only when a licence is free, and holds it until it ends. A service of more than one
// process keeps what is held in a database.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	kueuecheck "github.com/kueue-check/kueue-check/sdk/go"
)

const total = 2

type licences struct {
	lock sync.Mutex
	held map[string]bool
}

func (pool *licences) free(uid string) bool {
	return pool.held[uid] || len(pool.held) < total
}

func (pool *licences) review(_ context.Context, item kueuecheck.Item, _ kueuecheck.Review) (kueuecheck.Verdict, error) {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	if pool.free(item.UID) {
		return kueuecheck.Ready("a licence is free"), nil
	}
	return kueuecheck.Pending("all licences are in use").RecheckAfter(time.Minute), nil
}

func (pool *licences) activate(_ context.Context, call kueuecheck.Call) error {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	if !pool.free(call.UID) {
		return kueuecheck.Refused("all licences are in use")
	}
	pool.held[call.UID] = true
	return nil
}

func (pool *licences) release(_ context.Context, call kueuecheck.Call) error {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	delete(pool.held, call.UID)
	return nil
}

func (pool *licences) all(context.Context) ([]string, error) {
	pool.lock.Lock()
	defer pool.lock.Unlock()
	var uids []string
	for uid := range pool.held {
		uids = append(uids, uid)
	}
	return uids, nil
}

func main() {
	pool := &licences{held: map[string]bool{}}
	handler := kueuecheck.Handler{
		Review: pool.review, Activate: pool.activate, Release: pool.release, Held: pool.all,
		Key: os.Getenv("SIGNING_KEY"),
	}
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
