package promratelimit_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/promratelimit"
)

// The events of a limiter, from its calls to the metrics.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
		limiter := newLimiter(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2, MaxTPM: 1000}}, Events: h,
		})
		first, err := limiter.Acquire(t.Context(), "m", 100, 100)
		if err != nil {
			t.Fatal(err)
		}
		second, _ := limiter.Reserve("m", 50, 0)
		if _, d := limiter.Reserve("m", 1, 0); d.Allowed {
			t.Error("a third request was admitted")
		}
		if _, d := limiter.Reserve("m", 5000, 0); !d.Never {
			t.Error("a request above the quota may pass")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := limiter.Acquire(ctx, "m", 1, 0)
			done <- err
		}()
		time.Sleep(10 * time.Second)
		cancel()
		if <-done == nil {
			t.Error("a call in line was admitted")
		}
		first.Commit(100, 50)
		second.Cancel()
		third, err := limiter.Acquire(t.Context(), "m", 1, 0) // has the place that second gave back
		if err != nil {
			t.Fatal(err)
		}
		limiter.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "m", Status: 429, Problem: "rate_limited"})
		collector := promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h})
		var got []string
		for _, line := range lines(gather(t, h, collector)) {
			if !strings.HasPrefix(line, "ratelimit_quota_") {
				got = append(got, strings.Replace(line, "model=m,provider=", "m", 1))
			}
		}
		third.Cancel()
		equal(t, got,
			"ratelimit_active_leases{m} 1",
			"ratelimit_estimate_ratio{m} 1/0.75",
			"ratelimit_lease_duration_seconds{m} 2/20",
			"ratelimit_provider_rejections_total{error_type=rate_limited,m,status=429} 1",
			"ratelimit_request_time_in_queue_seconds{class=,m,result=canceled} 1/10",
			"ratelimit_requests_total{class=,code=ok,m,result=admitted} 3",
			"ratelimit_requests_total{class=,code=rpm_exceeded,m,result=canceled} 1",
			"ratelimit_requests_total{class=,code=rpm_exceeded,m,result=refused} 1",
			"ratelimit_requests_total{class=,code=rpm_exceeded,m,result=never_fits} 1",
			"ratelimit_tokens_total{kind=reserved,m,token_type=input} 151",
			"ratelimit_tokens_total{kind=reserved,m,token_type=output} 100",
			"ratelimit_tokens_total{kind=returned,m,token_type=input} 50",
			"ratelimit_tokens_total{kind=returned,m,token_type=output} 50",
			"ratelimit_tokens_total{kind=settled,m,token_type=input} 100",
			"ratelimit_tokens_total{kind=settled,m,token_type=output} 50",
		)
	})
}

// A rate needs a zero to begin with: refusals, the denials of pools and the spend have one before
// the first of them, where a limit or a price can cause it, also those of a class.
func TestCountersBeginAtZero(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	limiter := newLimiter(t, ratelimit.Config{
		Events: h, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 9}, "free": {AdaptiveFloorInFlight: 9}, "none": {}},
		Pools:   map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxTPD: 1000, MaxSpendPerDay: money.USD(9)}}},
		Classes: map[string]ratelimit.Class{"batch": {}, "people": {}},
		Prices:  map[string]money.Price{"m": {Input: money.USD(1)}},
	})
	c := promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h})
	zeros := func() (zeros []string) {
		for _, f := range gather(t, h, c) {
			for _, m := range f.Metric {
				if m.Counter != nil && m.Counter.GetValue() == 0 && !strings.Contains(labels(m), "result=admitted") &&
					f.GetName() != "ratelimit_tokens_total" && f.GetName() != "ratelimit_provider_rejections_total" {
					zeros = append(zeros, f.GetName()+labels(m))
				}
			}
		}
		return zeros
	}
	const requests, spend, denials = "ratelimit_requests_total", "ratelimit_spend_dollars_total", "ratelimit_pool_denials_total"
	of := func(class string) []string {
		return []string{
			requests + "{class=" + class + ",code=rpm_exceeded,model=m,provider=,result=refused}",
			requests + "{class=" + class + ",code=spend_exceeded,model=m,provider=,result=refused}",
			requests + "{class=" + class + ",code=tpd_exceeded,model=m,provider=,result=refused}",
			spend + "{class=" + class + ",model=m,provider=}",
		}
	}
	known := append(of(""),
		requests+"{class=,code=in_flight_exceeded,model=free,provider=,result=refused}",
		denials+"{code=spend_exceeded,pool=p,result=refused}", denials+"{code=tpd_exceeded,pool=p,result=refused}")
	equal(t, zeros(), known...) // before any call
	r, _ := limiter.Acquire(ratelimit.WithClass(t.Context(), "batch"), "m", 1, 0)
	defer r.Cancel()
	equal(t, zeros(), append(of("batch"), known...)...)
	if _, d := limiter.Reserve("m", 1000, 0); d.Allowed {
		t.Fatal("the pool admitted more than it has")
	}
	runtime.KeepAlive(limiter)
}
