package lives

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// world is what a life begins with, and which features its quotas have.
type world struct {
	cfg    ratelimit.Config
	begins time.Duration // after the 1st of January 2000
	names  []string      // of models that calls name
	own    []string      // of them, those that may have a quota of their own
	paced  bool          // quotas have a Burst, or search for a limit
	crowd  bool          // there are more models than Config.MaxModels
	lines  bool          // some calls wait
	fair   bool          // they are of classes and flows
	zones  map[string]string
	// rezones has the zones of days change in the middle of a day, and learns has reports correct
	// quotas. The oracle has no opinion then.
	rezones, learns bool
}

// zones have days of 23, 24 and 25 hours; in St. John's the clocks of 2000 changed at 00:01.
var zones = []string{"Europe/Berlin", "America/St_Johns", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Tokyo", ""}

// version is one of the model "open", which always has a quota where versions count to that.
const version = "open-2024-05-13"

// beginnings are the first of January, days before clocks change in a zone, and the last of a
// month.
var beginnings = []time.Duration{
	0, 85*24*time.Hour + 15*time.Hour, 92*24*time.Hour - 3*time.Hour, 302*24*time.Hour - 14*time.Hour, 59*24*time.Hour + 20*time.Hour,
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func oneIn(random *rand.Rand, n int) bool { return random.IntN(n) == 0 }

// drawQuota draws a quota in which any of the limits may bind. scale is 1 for a model, and more for
// a pool. Its day has the zone that belongs to the name, unless the world has zones change.
func (w *world) drawQuota(random *rand.Rand, name string, scale int) ratelimit.ModelQuota {
	zone := w.zones[name]
	if w.rezones {
		zone = pick(random, zones...)
	}
	q := ratelimit.ModelQuota{
		MaxRPM: scale * pick(random, 0, 0, 3, 5, 8), MaxTPM: scale * pick(random, 0, 0, 120, 250),
		MaxRPD: scale * pick(random, 0, 0, 10, 30), MaxITPM: scale * pick(random, 0, 0, 0, 70, 140),
		MaxOTPM: scale * pick(random, 0, 0, 0, 70, 120), MaxTPD: scale * pick(random, 0, 0, 500, 2000),
		MaxInFlight: scale * pick(random, 0, 0, 0, 2, 3), DayZone: zone,
	}
	if w.cfg.Prices != nil {
		q.MaxSpendPerDay = money.Amount(scale) * pick[money.Amount](random, 0, 0, 900, 4000)
		q.MaxSpendPerMonth = money.Amount(scale) * pick[money.Amount](random, 0, 0, 0, 9000)
		q.MaxSpendPerTenMinutes = money.Amount(scale) * pick[money.Amount](random, 0, 0, 400, 1500)
	}
	q.MaxTokensPerMonth = scale * pick(random, 0, 0, 0, 700, 4000)
	if w.paced && oneIn(random, 2) {
		q.Burst = pick(random, time.Millisecond, 5*time.Second, 20*time.Second)
	} else if w.paced && oneIn(random, 2) {
		q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = pick(random, 0, 2, 10), pick(random, 0, 60)
		q.AdaptiveFloorInFlight = pick(random, 0, 1, 2)
	}
	return q
}

// newWorld draws a world. Each feature is in some of the worlds, so that each meets each other one.
func newWorld(random *rand.Rand) *world {
	w := &world{begins: pick(random, beginnings...)}
	w.paced, w.crowd, w.lines = oneIn(random, 5), oneIn(random, 5), oneIn(random, 2)
	w.rezones = oneIn(random, 8)
	w.learns = oneIn(random, 12)
	w.fair = w.lines && oneIn(random, 2)
	zone := func() string { return pick(random, zones...) }
	w.cfg = ratelimit.Config{
		OnError: func(error) {}, // what it is told, events tell, too
		Margin:  pick(random, 0, 250*time.Millisecond),
		HoldTTL: pick(random, 0, 0, 90*time.Second, 26*time.Hour),
		Aliases: map[string]string{"alias": "full"}, LearnQuotas: w.learns,
	}
	if oneIn(random, 2) {
		w.cfg.Prices = map[string]money.Price{
			"full":   {Input: money.USD(1), CachedInput: money.USD(0.10), Output: money.USD(4)},
			"star-*": {Input: money.USD(3), CacheWrite: money.USD(3.75), Output: money.USD(11.1)},
			"zoned":  {Input: money.USD(0.5), Output: money.USD(2)},
		}
		w.cfg.Unpriced = pick(random, ratelimit.UnpricedDeny, ratelimit.UnpricedFree)
	}
	w.own = []string{"full", "zoned", "open", "org"}
	w.names = []string{"full", "zoned", "open", "org", "star-1", "star-2", "strange", "alias"}
	w.zones = map[string]string{"zoned": zone(), "org": zone(), "pool org": zone(), "pool some": zone(), "pool new": zone()}
	w.cfg.Quotas = map[string]ratelimit.ModelQuota{
		"full": w.drawQuota(random, "full", 1), "zoned": w.drawQuota(random, "zoned", 1), "open": {}, "org": w.drawQuota(random, "org", 1),
	}
	if oneIn(random, 2) {
		w.cfg.Quotas["star-*"] = w.drawQuota(random, "", 1)
	}
	if oneIn(random, 3) {
		w.cfg.Quotas["*"] = w.drawQuota(random, "", 1)
	}
	if oneIn(random, 2) {
		w.cfg.Pools = map[string]ratelimit.Pool{
			"org":  {Models: []string{"*"}, Quota: w.drawQuota(random, "pool org", 3)},
			"some": {Models: []string{"full", "star-*"}, Quota: w.drawQuota(random, "pool some", 2)},
		}
	}
	if w.crowd {
		w.cfg.MaxModels = pick(random, 1, 2)
		w.names = append(w.names, "guest-1", "guest-2", "guest-3")
	}
	if oneIn(random, 3) {
		w.cfg.MatchVersions = true
		w.names = append(w.names, version)
	}
	if oneIn(random, 6) {
		w.cfg.Unknown = ratelimit.UnknownDeny
	}
	if w.lines {
		w.cfg.MaxQueue = pick(random, 0, 0, 3)
	}
	if w.fair {
		w.cfg.Classes = drawClasses(random)
	}
	return w
}

func drawClasses(random *rand.Rand) map[string]ratelimit.Class {
	return map[string]ratelimit.Class{
		"ahead": {Ahead: true, ReservePercent: pick(random, 0, 0, 34)}, "heavy": {Weight: 3}, "light": {Weight: 1, MaxQueue: pick(random, 0, 2)},
	}
}

// isSilent reports whether the oracle has no opinion.
func (w *world) isSilent() bool { return w.rezones || w.learns }

// copies returns the configuration with maps of its own.
func (w *world) copies() ratelimit.Config {
	cfg := w.cfg
	cfg.Quotas, cfg.Pools = maps.Clone(cfg.Quotas), maps.Clone(cfg.Pools)
	cfg.Prices, cfg.Classes = maps.Clone(cfg.Prices), maps.Clone(cfg.Classes)
	return cfg
}

func (w *world) String() string {
	return fmt.Sprintf("begins %v, quotas %s, pools %s, margin %v, HoldTTL %v, MaxModels %d, MaxQueue %d, prices %t, unknown %v, classes %s",
		w.begins, render(w.cfg.Quotas), render(w.cfg.Pools), w.cfg.Margin, w.cfg.HoldTTL, w.cfg.MaxModels, w.cfg.MaxQueue,
		w.cfg.Prices != nil, w.cfg.Unknown, render(w.cfg.Classes))
}

// drawRequest draws a request.
func (l *life) drawRequest() ratelimit.Request {
	tokens := []int{10, 0, 1, 25, 40, 33, 17, 20, 71, 5, 10, 20}
	req := ratelimit.Request{
		Model: pick(l.random, l.names...), PromptTokens: pick(l.random, tokens...), OutputTokens: pick(l.random, tokens...),
	}
	if oneIn(l.random, 80) {
		req.PromptTokens = -1
	}
	if oneIn(l.random, 20) {
		req.PromptTokens *= 100
	}
	if l.fair {
		req.Class = pick(l.random, "", "ahead", "heavy", "light", "none such")
		req.Flow = pick(l.random, "", "", "x", "y")
	}
	return req
}

// drawCandidates draws requests of models that are counted apart.
func (l *life) drawCandidates() (reqs []ratelimit.Request) {
	for range 1 + l.random.IntN(3) {
		req := l.drawRequest()
		if !slices.ContainsFunc(reqs, func(other ratelimit.Request) bool { return l.counted(other.Model) == l.counted(req.Model) }) {
			reqs = append(reqs, req)
		}
	}
	return reqs
}

// drawUsage draws what is billed of a call.
func (l *life) drawUsage() money.Usage {
	n := func() int { return pick(l.random, 0, 1, 10, 40, 90, 0) }
	return money.Usage{Input: n(), CachedInput: n(), CacheWrite: n(), Output: n()}
}
