package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/replica"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// shared is the part of a limiter in a quota that several processes share: with Config.Shared and
// with Config.Store. What changes the state goes to a log as a command, and comes back from there
// in the order of all processes. Until it does, rl.engine does not know of it. The fields are
// guarded by RateLimiter.mu, which must not be held while replica is called.
type shared struct {
	rl      *RateLimiter
	replica *replica.Replica
	traits  store.Traits
	process int64 // the number of this limiter

	failClosed bool
	away       error                          // why the log is away; nil while it is there
	calls      map[account.ID]*account.Call   // open calls of this limiter, as it notes them
	requests   map[account.ID]context.Context // of those that are of a request over HTTP: see endWithLocked
	waiting    map[*waiter]int64              // those of this limiter that stand in line, and their numbers
	next       *sending                       // what was put and is not sent yet; nil for nothing
	last       *sending                       // was sent last; nil before the first
	own        bool                           // what is being applied is a command of this limiter
	before     ModelStats                     // of the first model of the last Reserve of this limiter that was applied
}

// newShared returns a limiter that takes part in the quota of a store.
func newShared(s store.Store, cfg Config) (*RateLimiter, error) {
	rl, profiles, err := newUnconfigured(&cfg)
	if err != nil {
		return nil, err
	}
	if err := rl.share(s, &cfg); err != nil {
		rl.reporter.Stop()
		return nil, err
	}
	rl.mu.Lock()
	rl.configureLocked(&cfg, profiles)
	rl.mu.Unlock()
	rl.shared.send()
	ctx, cancel := context.WithTimeout(background, rl.shared.traits.OpenTimeout)
	defer cancel()
	if err := rl.shared.replica.Told(ctx); err != nil { // nobody would know its quotas
		return nil, errors.Join(err, rl.Close())
	}
	rl.teller.begin()
	return rl, nil
}

// share has a limiter take part in the quota of a store.
func (rl *RateLimiter) share(s store.Store, cfg *Config) error {
	is := &shared{rl: rl, failClosed: cfg.FailClosed, calls: make(map[account.ID]*account.Call), requests: make(map[account.ID]context.Context), waiting: make(map[*waiter]int64), process: int64(store.NewID())}
	opens, cancel := context.WithTimeout(background, 30*time.Second) // a store has a bound of its own, until it answers
	defer cancel()
	log, err := s.Open(opens, store.Options{Process: is.process, Keep: rl.keeps(cfg), Report: rl.reporter.Report})
	if err != nil {
		return err
	}
	is.traits = store.TraitsOf(log)
	if from, ok := log.(interface {
		Learned() map[string]state.Answers
	}); ok { // earlier versions
		rl.answers.Merge(from.Learned(), rl.mostModels())
	}
	rl.shared, rl.firesAt = is, account.Never
	joins, cancel := context.WithTimeout(background, is.traits.OpenTimeout)
	defer cancel()
	is.replica, err = replica.Open(joins, replica.Options{
		Log: log, Process: is.process, Lock: &rl.mu,
		Observer: observer{rl}, Swapped: is.swappedLocked, Next: is.nextLocked,
		OnError: rl.reporter.Report, Away: is.tellAway, Sent: is.tellSent, Bounds: state.BoundsOf,
		LeaseTTL: leaseOf(cfg.LeaseTTL), MaxModels: cfg.MaxModels, FailClosed: cfg.FailClosed, FreshStart: cfg.FreshStart,
	})
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}

// keeps returns how long a store has to keep what nobody touches: longer than any day counts, and
// than a month where money is counted.
func (rl *RateLimiter) keeps(cfg *Config) time.Duration {
	budget := rl.pricing != nil
	for _, q := range cfg.Quotas {
		budget = budget || (*state.Quota)(&q).LimitsSpend()
	}
	for _, p := range cfg.Pools {
		budget = budget || (*state.Quota)(&p.Quota).LimitsSpend()
	}
	if budget {
		return 32 * 24 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// leaseOf returns what Config.LeaseTTL stands for, within what a log may say.
func leaseOf(ttl time.Duration) time.Duration {
	return min(max(cmp.Or(ttl, 10*time.Second), 100*time.Millisecond), fleet.LongestLease)
}

// close ends the part of the limiter. Its slots and places in line are free then.
func (s *shared) close() error {
	ctx, cancel := context.WithTimeout(background, 2*s.traits.Timeout)
	defer cancel()
	return s.replica.Close(ctx)
}

// nextLocked is told whose the command is that is applied next, and which.
func (s *shared) nextLocked(process int64, c engine.Command) {
	if s.own = process == s.process; s.own {
		s.rl.sayer = sayerOf(c)
	} else {
		s.rl.sayer = byProcess
	}
	if set, is := c.(engine.SetClasses); is {
		s.rl.classed.Store(len(set.Classes) > 0)
	}
}

// sayerOf returns what Event.By is of a command.
func sayerOf(c engine.Command) string {
	switch c := c.(type) {
	case engine.AddProfile:
		return byProfile
	case engine.SetAccount:
		return byAccount
	case engine.Loaded:
		return byFile
	case engine.Observe:
		if c.Report.Refused {
			return byRefusal
		}
		return byHeader
	}
	return byProgram
}

// swappedLocked takes over another engine: the first, or that of an image.
func (s *shared) swappedLocked(e *engine.Engine) {
	rl := s.rl
	was := rl.engine
	rl.engine = e
	rl.Quotas, rl.State = make(map[string]ModelQuota), make(map[string]*UsageStats)
	for _, name := range e.Catalog.Names() {
		if q, has := e.Catalog.Quota(name); has {
			rl.Quotas[name] = ModelQuota(q)
		}
	}
	for _, q := range e.Catalog.Quotas() {
		if q.LimitsSpend() {
			rl.priceLocked()
		}
	}
	if was != nil {
		s.tellQuotasLocked(was.Catalog.Quotas(), e.Catalog.Quotas())
	}
	for a := range e.Accounts {
		if was != nil {
			if old := was.Account(a.Name); old != nil {
				a.Local = old.Local
			}
		}
		if a.IsShown() {
			observer{rl}.Shown(a)
		}
	}
	rl.seen = seen{rl.Quotas, len(rl.Quotas), rl.State}
	rl.classed.Store(len(e.Classes()) > 0)
	for id, c := range s.calls {
		if is := e.Call(id); is != nil {
			c.NameAs(is)
		}
	}
	rl.quotaVersion++
}

// tellQuotasLocked tells which quotas another engine has.
func (s *shared) tellQuotasLocked(was, is map[string]state.Quota) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, has := is[name]; !has {
			s.rl.teller.requotedLocked(name, byProcess, ModelQuota{}, false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if q, had := was[name]; !had || q != is[name] {
			s.rl.teller.requotedLocked(name, byProcess, ModelQuota(is[name]), true)
		}
	}
}

// tellAway notes and tells why the log is away, or that it is there again.
func (s *shared) tellAway(why error) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.away = why
	s.rl.teller.storeRLocked(s.traits.System, why)
}

// tellSent tells of a write to the log.
func (s *shared) tellSent(began time.Time, err error) {
	s.rl.teller.saved(s.traits.System, stepOperation, began, err)
}

// err returns why the log cannot be used.
func (s *shared) err() error {
	err := s.replica.Err()
	if err == nil {
		s.rl.mu.RLock()
		defer s.rl.mu.RUnlock()
		err = s.away
	}
	return err
}

// shutRLocked returns why whatever is asked is refused: the limiter is closed, or admits nothing
// while the store is away. It returns nil while it decides.
func (s *shared) shutRLocked() error {
	switch {
	case s == nil:
	case s.rl.closed:
		return ErrClosed
	case s.failClosed:
		return s.away
	}
	return nil
}

// undecided is the decision where nothing can be decided.
func undecided(err error, stats ModelStats) Decision {
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, replica.ErrClosed):
		return Decision{Code: DecisionClosed, Reason: limiterClosed, Never: true, Stats: stats}
	case errors.Is(err, engine.ErrTooMany):
		return Decision{Code: DecisionStoreError, Reason: err.Error(), Never: true, Stats: stats}
	}
	return Decision{Code: DecisionStoreError, Reason: fmt.Sprintf("the shared quota cannot be read or written: %v", err), Stats: stats}
}

// freshen makes sure that what is read next is no older than the store promises.
func (s *shared) freshen(ctx context.Context) {
	if s != nil {
		s.replica.Fresh(ctx, s.traits.MaxStale)
	}
}

// now is the time of the store.
func (s *shared) now() account.Now { return s.replica.Now() }

// wallOf returns a time of this machine's clock as one of the store's, which may be set otherwise.
func (s *shared) wallOf(at time.Time, now account.Now) int64 {
	return clock.UnixNano(at.Add(time.Duration(now.Wall - time.Now().UnixNano())))
}

// sayLocked has a setting of quotas sent, behind the days of its zones.
func (s *shared) sayLocked(c engine.Command, zones []string, now account.Now) {
	slices.Sort(zones)
	for _, zone := range slices.Compact(zones) {
		if day, month := state.BoundsOf(zone, now.Wall); month != (account.Span{}) {
			s.putLocked(engine.Bounds{Zone: zone, Day: day, Month: month})
		}
	}
	s.putLocked(c)
}

// persist is Persist and Load: it only checks that this process and the store have the same.
func (s *shared) persist(op string) error {
	s.rl.mu.RLock()
	closed := s.rl.closed
	s.rl.mu.RUnlock()
	err := error(ErrClosed)
	if !closed {
		err = cmp.Or(s.replica.Sync(background), s.err())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
