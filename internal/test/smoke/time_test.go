package smoke

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

func TestTime(t *testing.T) {
	for _, kind := range []string{"file", "fake"} {
		path := filepath.Join(t.TempDir(), "a.db")
		synctest.Test(t, func(t *testing.T) {
			cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}}}
			var rl *ratelimit.RateLimiter
			var err error
			if kind == "file" {
				cfg.Shared = true
				rl, err = ratelimit.NewWithSQLiteConfig(path, cfg)
			} else {
				cfg.Store = fakestore.New()
				rl, err = ratelimit.NewWithConfig(cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Log(kind, time.Now())
			for range 4 {
				r, _ := rl.Reserve("m", 1, 1)
				t.Log(r.ReservedAt().Sub(time.Now()), time.Now(), rl.Explain("m").At.Sub(time.Now()))
				time.Sleep(10 * time.Second)
			}
			rl.Close()
		})
	}
}
