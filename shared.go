package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/answers"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/reporter"
	"dappco.re/go/core/go-ratelimit/internal/retry"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/outbox"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ledger makes one quota of all limiters that share a log. The log holds the events; each limiter
// holds their result in its own memory, and decides there. So a call reads the news, and never a
// window.
//
// A change is one step of all processes: it applies the news, decides, writes the events of the
// decision, and applies those, too. All events take the same way into memory, whichever process
// made them. A step that another process has beaten is decided again.
//
// When the log fails, steps go on in memory alone, and the outbox keeps their events until the
// log is back.
//
// A nil ledger is that of a limiter that shares nothing.
type ledger struct {
	// Set when the limiter is made.
	rl         *RateLimiter
	log        sharedlog.Log
	remote     sharedlog.Remote // the log, if it is on another machine; else nil
	system     string           // what the log is kept in: Event.System
	id         int64            // this limiter among those that share the log
	failClosed bool             // Config.FailClosed
	reporter   *reporter.Reporter

	// writer holds one token, which a goroutine takes to make a change: writes come one
	// after the other. It guards recovery and joining.
	writer   chan struct{}
	jobs     jobs          // of a remote log
	recovery *retry.Timer  // tries whether the log is back
	hope     retry.Hope    // that a remote log is back at once
	joining  chan struct{} // closed when the goroutine is through that reads everything; else nil

	readMu sync.Mutex // one Read at a time; taken before RateLimiter.mu

	down       atomic.Bool  // the log failed; set by the writer, under RateLimiter.mu
	closed     atomic.Bool  // set by the writer, under RateLimiter.mu
	torn       atomic.Bool  // memory lacks events, and the next step is to read everything
	seenSoFar  atomic.Int64 // seen, for those who read without the lock
	peersAt    atomic.Int64 // the instant at which the peers are looked after again
	goroutines sync.WaitGroup

	// The rest is guarded by RateLimiter.mu.

	err       error                 // why the log is down
	division  *division             // of the quotas, while a remote log is down
	seen      int64                 // events up to here were applied,
	seenAt    int64                 // as of this instant
	identity  string                // which log this memory follows; empty for none
	usedUntil int64                 // all minutes count as used until this instant; 0 for none
	keep      int64                 // how long an event is kept for the minute, in nanoseconds
	classes   string                // what they say of the classes, as an event does; empty for nothing
	quotas    map[string]state.Said // what the processes say of quotas, as the program and the account
	pools     map[string][]string   // the members of the pools that the log has, by counted name
	lost      *lostLog              // the content of the replaced log, until it is written to the new one
	peers     *peerSet              // all processes that have anything open; this one, too
	tail      sharedlog.Tail        // the events that the log has
	outbox    outbox.Outbox         // the events that it does not have
	lastN     int64                 // of this limiter's own events
	pending   *plan                 // the step that is being written
	spare     *plan                 // memory for the next one
	plans     int64                 // how many plans were made
	own       ownState              // the reservations and waiters of own events that are not yet applied
	lines     lines                 // the waiters of this limiter
	garbage   abandonedReserve      // reservations that the program never settled
	lease     *sharedlog.Lease
	foundTold toldModels
	learnt    answers.News // the models of whose answers the others do not know all
	sweepAt   int64        // the instant of the next sweep: see sharedlog.Batch.Sweep
}

var (
	background = context.Background()
	deciding   = sharedlog.Deciding(background)
)

// openFunc opens the log of a limiter.
type openFunc func(sharedlog.Options) (sharedlog.Log, error)

// shareLog makes a limiter one of those that share a log, and takes over its content.
func shareLog(rl *RateLimiter, cfg Config, open openFunc) (err error) {
	s := &ledger{
		rl:         rl,
		id:         rand.Int64N(1<<62) + 1,
		failClosed: cfg.FailClosed,
		writer:     make(chan struct{}, 1),
		reporter:   rl.reporter,
		quotas:     make(map[string]state.Said),
		keep:       rl.span(),
		own:        newOwnState(),
	}
	s.peers = s.newPeers()
	s.lease = sharedlog.NewLease(cfg.LeaseTTL, s.extendLease)
	s.recovery = retry.New(firstRecovery, lastRecovery, s.tryRecovery)
	s.log, err = open(sharedlog.Options{
		Process: s.id, LeaseTTL: s.lease.TTL(), FreshStart: cfg.FreshStart, Span: rl.span(),
		Report: s.reporter.Report, Replaced: s.repair,
	})
	if err == nil {
		s.remote, _ = s.log.(sharedlog.Remote)
		s.system = sharedlog.SystemOf(s.log)
		if err = s.join(&cfg); err != nil {
			s.log.Close()
		}
	}
	if err != nil {
		s.closed.Store(true)
		s.writer <- struct{}{} // for who waits to repair the log
		s.reporter.Stop()
		return err
	}
	s.writer <- struct{}{}
	rl.ledger, rl.lines.shared = s, true
	return nil
}

// openLedger makes a limiter one of those that share a database.
func openLedger(rl *RateLimiter, path string, cfg Config) error {
	err := shareLog(rl, cfg, func(o sharedlog.Options) (sharedlog.Log, error) {
		return sqlitelog.Open(path, sqlitelog.Options{
			Process: o.Process, Durability: cfg.Durability, LeaseTTL: o.LeaseTTL, FreshStart: o.FreshStart,
			Span: o.Span, Machine: clock.ReadMachine(&rl.clock), Report: o.Report,
			Now: func() (instant, wall int64) {
				rl.mu.Lock()
				defer rl.mu.Unlock()
				instant = rl.clock.Sync()
				return instant, rl.clock.UnixNano(instant)
			},
		})
	})
	if err != nil {
		return fmt.Errorf("open shared database: %w", err)
	}
	return nil
}

// shares reports whether the limiter shares anything.
func (s *ledger) shares() bool { return s != nil }

// join brings memory to the end of the log, and writes the quotas, pools and classes that the
// program set.
func (s *ledger) join(cfg *Config) error {
	_, err := s.attempt(background, sharedlog.Everything, func(p *plan) {
		for model, q := range cfg.Quotas {
			model = state.ModelName(model)
			said := s.quotas[model]
			if said.Only(state.Program) != state.SaidBy(state.Program, state.Quota(q)) {
				p.setQuota(model, q)
			}
		}
		p.joinPools(cfg.Pools)
		p.joinClasses(cfg.Classes)
	})
	return err
}

// do makes a change. decide is called with RateLimiter.mu held when memory knows all that
// others have done. It plans events and changes nothing; where another process was faster
// it is called again. do returns when the events are in the log, or in the outbox because
// the log is down. It fails only where ctx ends before that, and nothing was done then.
func (s *ledger) do(ctx context.Context, m combine.Manner, decide func(*plan)) error {
	if s.remote != nil {
		return s.group(ctx, m, decide)
	}
	select {
	case <-s.writer:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.writer <- struct{}{} }()
	return s.step(ctx, decide)
}

// update is do for changes that are ignored once the limiter is closed. It reports whether the
// limiter is shared; if not, it does nothing.
func (s *ledger) update(m combine.Manner, decide func(*plan)) (shared bool) {
	if s == nil {
		return false
	}
	if !s.closed.Load() {
		s.do(background, m, decide)
	}
	return true
}

// repair writes what this limiter knows to a log that has taken the place of the one it followed.
func (s *ledger) repair() { s.do(background, combine.AppendedApart, nothing) }

// nothing decides nothing: a step with it brings memory up to date.
func nothing(*plan) {}

// fresh brings memory up to date with the log, as far as that has changed.
func (s *ledger) fresh() {
	if s != nil { // which is inlined
		s.catchUp()
	}
}

func (s *ledger) catchUp() {
	s.hope.Await(background)
	if s.down.Load() || s.closed.Load() {
		return
	}
	if s.remote != nil && !s.log.Stale(s.seenSoFar.Load()) {
		s.lookAfterPeers()
		return
	}
	switch err := s.read(); {
	case err == nil:
		s.lookAfterPeers()
	case !errors.Is(err, sharedlog.ErrNoTime):
		s.torn.Store(s.remote != nil)                    // whose steps ask only for everything
		s.do(background, combine.AppendedApart, nothing) // repairs memory, or finds that the log is down
	}
}

// read applies the news.
func (s *ledger) read() error {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	s.rl.mu.RLock()
	seen := s.seen
	s.rl.mu.RUnlock()
	if !s.log.Stale(seen) {
		return nil
	}
	news, err := s.log.Read(background, seen)
	if err != nil {
		return err
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.applyNewsLocked(&news)
	return nil
}

// overrule denies a decision that the state of the ledger does not permit.
func (s *ledger) overrule(d *Decision) {
	if s != nil && d.Code != DecisionInvalidTokens {
		s.overruleShared(d)
	}
}

// overrules reports whether overrule denies.
func (s *ledger) overrules() bool { return s.closed.Load() || s.failClosed && s.down.Load() }

func (s *ledger) overruleShared(d *Decision) {
	if s.closed.Load() {
		d.Allowed, d.Never, d.RetryAfter, d.Cause, d.Pool = false, true, 0, "", ""
		d.Code, d.Reason = DecisionClosed, limiterClosed
	} else if s.failClosed && s.down.Load() {
		d.Allowed, d.Never, d.RetryAfter, d.Cause, d.Pool = false, false, 0, "", ""
		d.Code, d.Reason = DecisionStoreError, "the shared database cannot be used"
		if s.remote != nil {
			d.Reason = "the store cannot be used"
		}
	}
}

// usedAtLocked returns until when all minutes count as used; 0 when they do not.
func (s *ledger) usedAtLocked(instant int64) int64 {
	if s == nil {
		return 0
	}
	if instant >= s.usedUntil {
		s.usedUntil = 0
	}
	return s.usedUntil
}

// maybeUsed reports whether usedAtLocked has to be asked.
func (s *ledger) maybeUsed() bool { return s != nil && s.usedUntil != 0 }

// Err returns the error that keeps the limiter from using the shared database; nil while it can
// use it, and without Config.Shared. Meanwhile the limiter decides by the last state that it read
// and by its own charges, or denies with Config.FailClosed. It writes its charges when the
// database is back. Err checks that the database is in its place, but does not write to it;
// Persist does. It is safe for concurrent use.
func (rl *RateLimiter) Err() error {
	rl.ledger.fresh()
	return rl.ledger.failure()
}

// failure returns why the log is down.
func (s *ledger) failure() error {
	if s == nil {
		return nil
	}
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.err
}

// flush brings memory and log together now, and returns why that is not possible. It
// reports whether the limiter is shared; if not, it does nothing.
func (s *ledger) flush() (shared bool, err error) {
	if s == nil {
		return false, nil
	}
	<-s.writer
	defer func() { s.writer <- struct{}{} }()
	if s.closed.Load() {
		return true, ErrClosed
	}
	if s.down.Load() {
		return true, s.recover(recoverAtOnce)
	}
	s.step(background, (*plan).tellAll)
	return true, s.failure()
}

// close gives up what this limiter has open, and closes the log. What could not be written
// is lost, and named in the error.
func (s *ledger) close() error {
	if s == nil {
		return nil
	}
	<-s.writer
	defer func() { s.writer <- struct{}{} }()
	if s.closed.Load() {
		return nil
	}
	if s.down.Load() {
		s.recover(recoverAtOnce)
	}
	s.step(background, (*plan).close)
	s.recovery.Stop()
	s.rl.mu.Lock()
	lost, cause := s.outbox.Lasting(), s.err
	s.lease.Stop()
	s.rl.mu.Unlock()

	s.readMu.Lock()
	err := s.log.Close()
	s.readMu.Unlock()
	if lost > 0 && cause != nil {
		err = errors.Join(fmt.Errorf("could not write the last changes (%d): %w", lost, cause), err)
	}
	return err
}

// wait waits for the goroutines of a closed ledger.
func (s *ledger) wait() {
	if s != nil {
		s.goroutines.Wait()
	}
}

// reserve is plan.reserve. Where calls in flight deny, it makes sure that they are calls of
// processes that live.
func (s *ledger) reserve(ctx context.Context, d *Decision, model string, c *cost, class string) (made *Reservation, err error) {
	// A step of a remote log may keep these. The caller's own stay off the heap.
	decided, asked := new(Decision), *c
	defer func() { *d = *decided }()
	for {
		err = s.do(ctx, combine.Beside, func(p *plan) { made = p.reserve(decided, model, &asked, class) })
		if err != nil || made != nil || decided.Code != DecisionInFlightLimit && decided.Code != DecisionQueued || !s.lookAfterPeers() {
			break
		}
	}
	return made, err
}

// reserveShared is reserveOne with Config.Shared.
func (rl *RateLimiter) reserveShared(ctx context.Context, by *caller, d *Decision, model string, c *cost) (*Reservation, error) {
	made, err := rl.ledger.reserve(ctx, d, model, c, by.class)
	var e *telling
	if err == nil && (rl.teller != nil || made == nil && !by.tentative) {
		rl.mu.Lock()
		if made == nil && !by.tentative {
			rl.refusedLocked(rl.nameRLocked(model), rl.clock.Sync(), d)
		}
		e = rl.teller.reservedLocked(by, made, d, c)
		rl.mu.Unlock()
	}
	rl.teller.tell(e)
	made.watch()
	return made, err
}
