package lives

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/mirrorlog"
)

// The kinds of limiters. All of them do the same at the same moments, and say the same.
const (
	private = "private" // alone, with a file that Persist and Load use
	file    = "file"    // over a database that processes share
	inLog   = "log"     // over a log of a store, which is in memory
	three   = "three"   // of a log, which take turns, and are as one together
	redis   = "redis"   // three of a log of Redis, see the flag -redis
)

// All of them begin with one seed of what is random in searches, so they find the same limits.
func init() { engine.DrawSeed = func() uint64 { return 1 } }

// shares says whether there are shared limiters.
const shares = true

// remote is the connection to who serves the log of Redis.
var remote = sync.OnceValue(func() *mirrorlog.Remote {
	conn, err := net.Dial("tcp", *redisAt)
	if err != nil {
		panic(err)
	}
	return mirrorlog.NewRemote(conn)
})

// house is a limiter of one kind, and what it has told.
type house struct {
	kind   string
	folder string
	fake   *fakestore.Fake
	mirror *mirrorlog.Mirror // of fake, to Redis
	all    []*ratelimit.RateLimiter
	rl     *ratelimit.RateLimiter // whose turn it is

	mu   sync.Mutex
	told []ratelimit.Event
}

func newHouse(kind, folder string, cfg ratelimit.Config) (*house, error) {
	h := &house{kind: kind, folder: folder, fake: fakestore.New()}
	h.fake.Contact, h.fake.Steady = 24*time.Hour, true
	if kind == redis {
		h.mirror = mirrorlog.NewMirror(h.fake, remote())
	}
	return h, h.open(cfg)
}

// open opens the limiter, with a configuration that does not say where its state is.
func (h *house) open(cfg ratelimit.Config) error {
	n := 1
	cfg.Events = h
	cfg.LeaseTTL = 100_000 * time.Hour // renewals of leases would take most of the time
	switch h.kind {
	case private:
		cfg.FilePath = filepath.Join(h.folder, "state.yaml")
	case file:
		cfg.Backend, cfg.FilePath, cfg.Shared = "sqlite", filepath.Join(h.folder, "state.db"), true
	case inLog:
		cfg.Store = h.fake
	case three:
		cfg.Store, n = h.fake, 3
	case redis:
		cfg.Store, n = h.mirror, 3
	}
	h.all = nil
	for range n {
		rl, err := ratelimit.NewWithConfig(cfg)
		if err != nil {
			return err
		}
		h.all = append(h.all, rl)
	}
	h.turn(0)
	return nil
}

func (h *house) close() (err error) {
	for _, rl := range h.all {
		err = errors.Join(err, rl.Close())
	}
	return err
}

// turn has the limiter be asked whose turn it is at a step.
func (h *house) turn(step int) { h.rl = h.all[step%len(h.all)] }

// HandleEvent implements ratelimit.EventHandler.
func (h *house) HandleEvent(_ context.Context, e *ratelimit.Event) {
	is := *e
	if e.Decision != nil {
		d := *e.Decision
		is.Decision = &d
	}
	if e.Quota != nil {
		q := *e.Quota
		is.Quota = &q
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, is)
}

// take returns the events since the last time, without those of the place where a limiter has its
// state.
func (h *house) take() []ratelimit.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := h.told
	h.told = nil
	return slices.DeleteFunc(told, func(e ratelimit.Event) bool { return e.Kind == ratelimit.EventSaved })
}

// sight is what a limiter says of all that there is, at one moment.
type sight struct {
	Stats   map[string]ratelimit.ModelStats
	Pools   map[string]ratelimit.ModelStats
	Health  ratelimit.Health
	Audit   ratelimit.Audit
	Quotas  map[string]standing
	Members map[string][]string
	Explain map[string]ratelimit.Explanation
	OfPools map[string]ratelimit.PoolState
}

// standing is the quota that stands for a model.
type standing struct {
	Name  string
	Quota ratelimit.ModelQuota
	Known bool
}

// look asks a limiter for the counts, and with all for everything else.
func (h *house) look(models []string, all bool) *sight {
	s := &sight{Stats: make(map[string]ratelimit.ModelStats), Pools: make(map[string]ratelimit.ModelStats)}
	for _, model := range models {
		s.Stats[model] = h.rl.Stats(model)
	}
	pools := slices.Collect(h.rl.Pools())
	for _, pool := range pools {
		s.Pools[pool] = h.rl.PoolStats(pool)
	}
	if !all {
		return s
	}
	s.Quotas, s.Members = make(map[string]standing), make(map[string][]string)
	s.Explain, s.OfPools = make(map[string]ratelimit.Explanation), make(map[string]ratelimit.PoolState)
	s.Health, s.Audit = h.rl.Health(), h.audit()
	for _, model := range models {
		var q standing
		q.Name, q.Quota, q.Known = h.rl.QuotaFor(model)
		s.Quotas[model] = q
		s.Members[model] = h.rl.PoolsOf(model)
		s.Explain[model] = h.rl.Explain(model)
	}
	for _, pool := range pools {
		s.OfPools[pool], _ = h.rl.ExplainPool(pool)
	}
	return s
}

// audit returns what has become of the calls of all limiters.
func (h *house) audit() (all ratelimit.Audit) {
	all = h.all[0].Audit()
	for _, rl := range h.all[1:] {
		is := rl.Audit()
		addEntries(all.Models, is.Models)
		addEntries(all.Pools, is.Pools)
		addEntries(all.Classes, is.Classes)
	}
	return all
}

func addEntries(to, more map[string]ratelimit.AuditEntry) {
	for name, is := range more {
		sum := to[name]
		for _, of := range []struct{ to, more *ratelimit.AuditSum }{
			{&sum.Reserved, &is.Reserved}, {&sum.Estimated, &is.Estimated}, {&sum.Settled, &is.Settled}, {&sum.Released, &is.Released},
			{&sum.Expired, &is.Expired}, {&sum.Open, &is.Open}, {&sum.Recorded, &is.Recorded},
		} {
			of.to.Calls += of.more.Calls
			of.to.InputTokens += of.more.InputTokens
			of.to.OutputTokens += of.more.OutputTokens
			of.to.Money += of.more.Money
		}
		to[name] = sum
	}
}
