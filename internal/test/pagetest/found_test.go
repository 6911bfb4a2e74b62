package pagetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// TestFound: a browser shows what was found as Stats says it, and when a refusal lowered it.
func TestFound(t *testing.T) {
	s := serve(t, map[string]ratelimit.ModelQuota{"pool": poolQuota})
	r, d := s.rl.Reserve("pool", 900, 300)
	if !d.Allowed {
		t.Fatal(d.Reason)
	}
	defer r.Cancel()
	b := browse(t)
	b.visit(s.URL)
	check := func(rpm, inFlight int) {
		t.Helper()
		if stats := s.rl.Stats("pool"); stats.AdaptiveRPM != rpm || stats.AdaptiveInFlight != inFlight || stats.MaxInFlight != 0 {
			t.Errorf("stats %+v, want %d a minute and %d in flight", stats, rpm, inFlight)
		}
		is := b.row("pool")
		for key, want := range map[string]string{
			"adaptive_rpm": fmt.Sprintf("1 / %d", rpm), "adaptive_in_flight": fmt.Sprintf("1 / %d", inFlight), "max_in_flight": "",
		} {
			if is.Limits[key] != want {
				t.Errorf("the page shows %q of %s, want %q", is.Limits[key], key, want)
			}
		}
	}
	check(60, 4)
	wide := value[float64](b, `document.querySelector("[data-limit=adaptive_in_flight] rect.open").getBoundingClientRect().width /
		document.querySelector("[data-limit=adaptive_in_flight] svg").getBoundingClientRect().width`)
	if wide < 0.24 || wide > 0.26 {
		t.Errorf("the bar of 1 in 4 is %v full", wide)
	}
	sent := time.Now()
	for _, problem := range []string{"rate_limited", "overloaded"} {
		s.rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "pool", Problem: problem, SentAt: sent})
	}
	b.until(`document.querySelector("[data-limit=adaptive_rpm] .of").textContent.endsWith("57")`)
	check(57, 3)
	b.until(`[...document.querySelectorAll(".search")].some((x) => /; refused at 60; lowered [1-9] s ago/.test(x.textContent))`)
}
