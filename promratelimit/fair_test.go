package promratelimit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
)

// fairLines are the metrics of classes, pools and money, without those that are zero.
func fairLines(t *testing.T, collectors ...prometheus.Collector) []string {
	t.Helper()
	return slices.DeleteFunc(lines(gather(t, collectors...)), func(line string) bool {
		return strings.HasPrefix(line, "ratelimit_quota_") || strings.HasPrefix(line, "ratelimit_tokens_") ||
			strings.HasPrefix(line, "ratelimit_lease_") || strings.HasPrefix(line, "ratelimit_estimate_")
	})
}

// A pool has metrics of its own, also if a model has its name, so that a sum over the models counts
// nothing twice. Requests, waits, the line and the spend have the class.
func TestFairShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
		limiter := newLimiter(t, ratelimit.Config{
			Events: h,
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100, MaxSpendPerDay: money.USD(2)}, "free": {}},
			Pools: map[string]ratelimit.Pool{
				"m":  {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 2, MaxSpendPerDay: money.USD(4), MaxSpendPerMonth: money.USD(9)}},
				"no": {Models: []string{"none"}},
			},
			Classes: map[string]ratelimit.Class{"batch": {}, "people": {Weight: 3}},
			Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
		})
		collector := promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h})
		acquire := func(class, model string) {
			r, err := limiter.Acquire(ratelimit.WithClass(t.Context(), class), model, 500_000, 0)
			if err != nil {
				t.Error(err)
				return
			}
			r.Commit(500_000, 0)
		}
		acquire("batch", "m")
		acquire("", "free")
		if _, d := limiter.Reserve("m", 1, 0); d.Pool != "m" {
			t.Errorf("decision %+v", d)
		}
		synctest.Wait()
		for _, class := range []string{"people", "batch", "unknown"} {
			go acquire(class, "m")
			synctest.Wait()
		}
		equal(t, fairLines(t, h, collector),
			"ratelimit_budget_limit_dollars{model=m,period=day,provider=} 2",
			"ratelimit_budget_spent_dollars{model=free,period=day,provider=} 0.5",
			"ratelimit_budget_spent_dollars{model=free,period=month,provider=} 0.5",
			"ratelimit_budget_spent_dollars{model=m,period=day,provider=} 0.5",
			"ratelimit_budget_spent_dollars{model=m,period=month,provider=} 0.5",
			"ratelimit_pool_budget_limit_dollars{period=day,pool=m} 4",
			"ratelimit_pool_budget_limit_dollars{period=month,pool=m} 9",
			"ratelimit_pool_budget_spent_dollars{period=day,pool=m} 1",
			"ratelimit_pool_budget_spent_dollars{period=month,pool=m} 1",
			"ratelimit_pool_denials_total{code=rpm_exceeded,pool=m,result=refused} 1",
			"ratelimit_pool_queued_requests{pool=m} 3",
			"ratelimit_pool_quota_limit{dimension=rpm,pool=m,source=program} 2",
			"ratelimit_pool_quota_used{dimension=rpm,pool=m,source=program} 2",
			"ratelimit_pool_quota_utilization_ratio{dimension=rpm,pool=m,source=program} 1",
			"ratelimit_queued_requests{class=,model=m,provider=} 1",
			"ratelimit_queued_requests{class=batch,model=m,provider=} 1",
			"ratelimit_queued_requests{class=people,model=m,provider=} 1",
			"ratelimit_requests_total{class=,code=ok,model=free,provider=,result=admitted} 1",
			"ratelimit_requests_total{class=,code=rpm_exceeded,model=m,provider=,result=refused} 1",
			"ratelimit_requests_total{class=batch,code=ok,model=m,provider=,result=admitted} 1",
			"ratelimit_spend_dollars_total{class=,model=free,provider=} 0.5",
			"ratelimit_spend_dollars_total{class=batch,model=m,provider=} 0.5",
		)
		time.Sleep(time.Minute + time.Second)
		got := slices.DeleteFunc(fairLines(t, h, collector), func(line string) bool {
			return !strings.Contains(line, "time_in_queue") && !strings.Contains(line, "denials") && !strings.Contains(line, "_queued_")
		})
		equal(t, got,
			"ratelimit_pool_denials_total{code=rpm_exceeded,pool=m,result=refused} 1",
			"ratelimit_pool_denials_total{code=rpm_exceeded,pool=m,result=admitted} 1", // the others stood behind it
			"ratelimit_pool_queued_requests{pool=m} 1",
			"ratelimit_queued_requests{class=,model=m,provider=} 1",
			"ratelimit_request_time_in_queue_seconds{class=batch,model=m,provider=,result=admitted} 1/60.000000001",
			"ratelimit_request_time_in_queue_seconds{class=people,model=m,provider=,result=admitted} 1/60.000000001",
		)
		time.Sleep(2 * time.Minute)
	})
}

// Names are what a configuration says, and there are at most so many.
func TestPoolsAndClassesAreBounded(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	for i := range 1005 {
		d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: fmt.Sprint("p", i)}
		tell(h, ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Class: fmt.Sprint("c", i), Decision: &d})
	}
	count := make(map[string]int)
	for _, line := range lines(gather(t, h)) {
		name, rest, _ := strings.Cut(line, "{")
		count[name]++
		var n int
		if fmt.Sscan(rest[strings.LastIndex(rest, " "):], &n); strings.Contains(rest, "=_other") {
			count["other "+name] += n
		}
	}
	want := map[string]int{
		"ratelimit_pool_denials_total": 1001, "other ratelimit_pool_denials_total": 5,
		"ratelimit_requests_total": 101, "other ratelimit_requests_total": 905,
	}
	for name, n := range want {
		if count[name] != n {
			t.Errorf("%s: %d, want %d", name, count[name], n)
		}
	}
	limiter := newLimiter(t, ratelimit.Config{})
	for i := range 1005 {
		limiter.SetPool(fmt.Sprint("p", 2000-i), ratelimit.Pool{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}})
	}
	for collector, want := range map[prometheus.Collector]int{
		promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{}):           1000,
		promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h}): 4, // p996 to p999 are those of the handler
	} {
		n := 0
		for _, line := range lines(gather(t, collector)) {
			if strings.HasPrefix(line, "ratelimit_pool_quota_limit{") {
				n++
			}
		}
		if n != want {
			t.Errorf("%d pools have gauges, want %d", n, want)
		}
	}
}

// Two names that are one as labels do not fail a scrape.
func TestOddPoolsAndClasses(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	quota := ratelimit.ModelQuota{MaxRPM: 1}
	limiter := newLimiter(t, ratelimit.Config{Pools: map[string]ratelimit.Pool{
		"p\xff": {Quota: quota}, `p\xff`: {Quota: quota}, "_other": {Quota: quota}, "a\nb": {Quota: quota},
	}})
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: "p\xff"}
	for _, class := range []string{"c\xff", `c\xff`, "_other"} {
		tell(h, ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Class: class, Decision: &d})
	}
	got := slices.DeleteFunc(lines(gather(t, h, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h}))), func(line string) bool {
		return !strings.Contains(line, "_total") && !strings.Contains(line, "pool_quota_limit")
	})
	equal(t, got,
		`ratelimit_pool_denials_total{code=rpm_exceeded,pool=p\xff,result=refused} 3`,
		`ratelimit_pool_quota_limit{dimension=rpm,pool=p\xff,source=program} 1`,
		"ratelimit_pool_quota_limit{dimension=rpm,pool=a\nb,source=program} 1",
		`ratelimit_requests_total{class=c\xff,code=rpm_exceeded,model=m,provider=,result=refused} 2`,
		`ratelimit_requests_total{class=_other,code=rpm_exceeded,model=m,provider=,result=refused} 1`,
	)
}

func TestFairEventsAllocateNothing(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: "p"}
	events := []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted, Model: "m", Class: "batch", Estimated: usage(1, 1)},
		{Kind: ratelimit.EventAdmitted, Model: "m", Class: "batch", Wait: time.Second, Decision: &d},
		{Kind: ratelimit.EventRefused, Model: "m", Class: "people", Decision: &d},
		{Kind: ratelimit.EventSettled, Model: "m", Class: "batch", Cost: 5, Settled: usage(1, 1)},
	}
	for i := range events {
		e := &events[i]
		for range 3 { // the tables are settled after some calls
			h.HandleEvent(t.Context(), e)
		}
		if n := testing.AllocsPerRun(100, func() { h.HandleEvent(t.Context(), e) }); n != 0 {
			t.Errorf("%s of %s: %v allocations", e.Kind, e.Class, n)
		}
	}
}
