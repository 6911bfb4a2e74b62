package promratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
)

func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a": {MaxRPM: 4, MaxTPM: 1000, MaxInFlight: 2}, "b": {MaxRPD: 5},
		}})
		r, err := limiter.Acquire(t.Context(), "a", 100, 50)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Cancel()
		limiter.RecordUsage("b", 1, 1)
		limiter.CooldownFor("b", 90*time.Second, ratelimit.CauseDailyQuota)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := limiter.Acquire(ctx, "b", 1, 1)
			done <- err
		}()
		synctest.Wait()
		collector := promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{})
		equal(t, lines(gather(t, collector)),
			"ratelimit_active_leases{model=a,provider=} 1",
			"ratelimit_queued_requests{class=,model=b,provider=} 1",
			"ratelimit_provider_pause_seconds{cause=daily_quota,model=b,provider=} 90",
			"ratelimit_quota_limit{dimension=in_flight,model=a,provider=,source=program} 2",
			"ratelimit_quota_used{dimension=in_flight,model=a,provider=,source=program} 1",
			"ratelimit_quota_utilization_ratio{dimension=in_flight,model=a,provider=,source=program} 0.5",
			"ratelimit_quota_limit{dimension=rpm,model=a,provider=,source=program} 4",
			"ratelimit_quota_used{dimension=rpm,model=a,provider=,source=program} 1",
			"ratelimit_quota_utilization_ratio{dimension=rpm,model=a,provider=,source=program} 0.25",
			"ratelimit_quota_limit{dimension=tpm,model=a,provider=,source=program} 1000",
			"ratelimit_quota_used{dimension=tpm,model=a,provider=,source=program} 150",
			"ratelimit_quota_utilization_ratio{dimension=tpm,model=a,provider=,source=program} 0.15",
			"ratelimit_quota_limit{dimension=rpd,model=b,provider=,source=program} 5",
			"ratelimit_quota_used{dimension=rpd,model=b,provider=,source=program} 1",
			"ratelimit_quota_utilization_ratio{dimension=rpd,model=b,provider=,source=program} 0.2",
		)
		cancel()
		if <-done == nil {
			t.Error("the call in line was admitted")
		}
		limiter.CooldownFor("b", 0, ratelimit.CauseCaller)
	})
}

// Limits that are found are told beside the quota's own.
func TestFound(t *testing.T) {
	limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"a": {AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 2, MaxInFlight: 9}, "b": {AdaptiveFloorInFlight: 3}, "c": {MaxRPM: 4},
	}})
	for _, problem := range []string{"rate_limited", "overloaded"} {
		limiter.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "a", Problem: problem})
	}
	got := slices.DeleteFunc(lines(gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{}))), func(line string) bool {
		return !strings.HasPrefix(line, "ratelimit_quota_found") && !strings.HasPrefix(line, "ratelimit_quota_limit")
	})
	equal(t, got,
		"ratelimit_quota_found{dimension=in_flight,model=a,provider=} 3",
		"ratelimit_quota_found{dimension=in_flight,model=b,provider=} 6",
		"ratelimit_quota_found{dimension=rpm,model=a,provider=} 57",
		"ratelimit_quota_limit{dimension=in_flight,model=a,provider=,source=program} 9",
		"ratelimit_quota_limit{dimension=rpm,model=c,provider=,source=program} 4",
	)
}

// A quota of a profile has the age of the day on which it was read.
func TestProfileAge(t *testing.T) {
	limiter := newLimiter(t, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}})
	ages := 0
	for _, f := range gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{})) {
		for _, m := range f.Metric {
			if f.GetName() != "ratelimit_profile_age_seconds" {
				continue
			}
			ages++
			e := limiter.Explain(m.Label[0].GetValue())
			if off := e.At.Sub(e.ProfileReadOn).Seconds() - m.Gauge.GetValue(); e.ProfileReadOn.IsZero() || off < 0 || off > 60 {
				t.Errorf("%s is off by %v s", labels(m), off)
			}
			if m.Label[1].GetValue() != "openai" {
				t.Errorf("%s has another provider", labels(m))
			}
		}
	}
	if ages == 0 {
		t.Error("no ages")
	}
}

// What a scrape says of a limiter at rest is what Stats says.
func TestCollectorEqualsStats(t *testing.T) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 20 {
		quotas[fmt.Sprint("m", i)] = ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 10_000 * (i + 1), MaxRPD: 1000}
	}
	limiter := newLimiter(t, ratelimit.Config{Quotas: quotas})
	var want []string
	for i := range 20 {
		model := fmt.Sprint("m", i)
		for range i + 1 {
			limiter.RecordUsage(model, 10*i, 5)
		}
		s := limiter.Stats(model)
		for dimension, used := range map[string]int{"rpm": s.RPM, "tpm": s.TPM, "rpd": s.RPD} {
			want = append(want, fmt.Sprintf("ratelimit_quota_used{dimension=%s,model=%s,provider=,source=program} %d", dimension, model, used))
		}
	}
	got := slices.DeleteFunc(lines(gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{}))), func(line string) bool {
		return !strings.HasPrefix(line, "ratelimit_quota_used{")
	})
	equal(t, got, want...)
}

// The collector and its handler give the same models metrics of their own.
func TestCollectorSharesTheBound(t *testing.T) {
	limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4}, "b": {MaxRPM: 4}, "c": {MaxRPM: 4}}})
	for _, model := range []string{"a", "b", "c"} {
		r, err := limiter.Acquire(t.Context(), model, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Cancel()
	}
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{MaxModels: 1})
	tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "c"})
	equal(t, lines(gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h}))),
		"ratelimit_active_leases{model=_other,provider=} 2",
		"ratelimit_active_leases{model=c,provider=} 1",
		"ratelimit_quota_limit{dimension=rpm,model=c,provider=,source=program} 4",
		"ratelimit_quota_used{dimension=rpm,model=c,provider=,source=program} 1",
		"ratelimit_quota_utilization_ratio{dimension=rpm,model=c,provider=,source=program} 0.25",
	)
	equal(t, lines(gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{MaxModels: -1}))),
		"ratelimit_active_leases{model=_other,provider=} 3")
}

// Limiters of one registry have constant labels that tell them apart.
func TestSeveralLimiters(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"chat", "embed"} {
		h := promratelimit.NewHandler(promratelimit.HandlerOptions{ConstLabels: prometheus.Labels{"limiter": name}})
		limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 4}}})
		registry.MustRegister(h, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h}))
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m"})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, lines(families),
		"ratelimit_quota_limit{dimension=rpm,limiter=chat,model=m,provider=,source=program} 4",
		"ratelimit_quota_limit{dimension=rpm,limiter=embed,model=m,provider=,source=program} 4",
		"ratelimit_requests_total{class=,code=ok,limiter=chat,model=m,provider=,result=admitted} 1",
		"ratelimit_requests_total{class=,code=ok,limiter=embed,model=m,provider=,result=admitted} 1",
	)
}

func TestCollectorOfAClosedLimiter(t *testing.T) {
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: t.TempDir() + "/state.yaml", Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	if got := lines(gather(t, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{}))); len(got) == 0 {
		t.Error("no metrics")
	}
}
