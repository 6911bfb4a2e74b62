package smoke

import (
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestTime2(t *testing.T) {
	for _, opt := range []string{"plain", "sleep", "hold", "classes", "margin", "zone", "prices"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}}}
			switch opt {
			case "sleep":
				time.Sleep(7234 * time.Hour)
			case "hold":
				cfg.HoldTTL = time.Minute
			case "classes":
				cfg.Classes = map[string]ratelimit.Class{"light": {Weight: 1, MaxQueue: 2}}
			case "margin":
				cfg.Margin = time.Second / 4
			case "zone":
				cfg.Quotas["z"] = ratelimit.ModelQuota{DayZone: "Europe/Berlin", MaxRPD: 5}
			case "prices":
				cfg.Prices = map[string]money.Price{"*": {Input: 1000}}
			}
			f := fakestore.New()
			f.Steady = true
			cfg.Store = f
			rl, err := ratelimit.NewWithConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r, _ := rl.Reserve("x", 1, 1)
				t.Log(opt, r.ReservedAt().Sub(time.Now()), time.Now(), rl.Explain("m").At.Sub(time.Now()))
				time.Sleep(10 * time.Second)
			}
			rl.Close()
		})
	}
}
