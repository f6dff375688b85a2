// Jobs start only inside a daily window.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
	_ "time/tzdata"

	kueuecheck "github.com/kueue-check/kueue-check/sdk/go"
)

func window(_ context.Context, _ kueuecheck.Item, review kueuecheck.Review) (kueuecheck.Verdict, error) {
	var config struct{ Opens, Closes, TimeZone string }
	wrong := json.Unmarshal(review.Config, &config)
	zone, unknown := time.LoadLocation(config.TimeZone)
	opens, malformed := time.Parse(time.TimeOnly, config.Opens)
	if err := errors.Join(wrong, unknown, malformed); err != nil {
		return kueuecheck.Verdict{}, err
	}
	local := review.Time.In(zone)
	at, day := local.Format(time.TimeOnly), local.Day()
	early, late := at < config.Closes, config.Opens <= at
	if config.Opens <= config.Closes && early && late || config.Opens > config.Closes && (early || late) {
		return kueuecheck.Ready("inside the window"), nil
	}
	if late {
		day++
	}
	start := time.Date(local.Year(), local.Month(), day, opens.Hour(), opens.Minute(), opens.Second(), 0, zone)
	verdict := kueuecheck.Pending(fmt.Sprintf("outside the window, which opens at %s", start))
	return verdict.RecheckAfter(start.Sub(review.Time)), nil
}

func main() {
	handler := kueuecheck.Handler{Review: window, Key: os.Getenv("SIGNING_KEY")}
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
