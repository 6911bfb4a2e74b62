package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/reporter"
)

// ledger makes one quota of all limiters that share a database. The file holds what
// happened, as a list of events; each limiter holds what follows from them, in its own
// memory, which is where it decides. So a call reads what is new, and never a window.
//
// A change is one step of all processes: it takes the turn, reads what others have
// written, decides and charges in memory, writes that down, and gives the turn up. The
// turn is a lock in the process and one on a file beside the database, because SQLite
// itself lets those wait longest who have waited longest.
//
// When the file fails, steps go on in memory alone, and what they would have written is
// kept in the outbox until it is back.
type ledger struct {
	rl       *RateLimiter
	reporter *reporter.Reporter
	path     string
	options  ledgerOptions
	id       int64 // this limiter among those that share the file
	machine  clock.Machine

	turn chan struct{} // empty while somebody has the turn
	lock *fsx.FairLock // guarded by the turn
	life *fsx.LifeLock
	file *ledgerFile // nil when it is closed; changed only by who has the turn, and reading

	reading sync.Mutex // one reader at a time; after the turn, before RateLimiter.mu
	version int64      // of the file when it was last read; guarded by reading
	checkAt int64      // the instant from which the stamp is not relied on; guarded by reading

	down   atomic.Bool // the file failed
	closed atomic.Bool

	recovery   // guarded by the turn
	goroutines sync.WaitGroup

	// The rest is guarded by RateLimiter.mu.
	err       error // why the file is down
	seen      int64 // events up to here were applied,
	seenAt    int64 // as of this instant
	lastN     int64 // of this limiter's own events
	outbox    []*event
	packAt    int             // how long the outbox must be to be packed
	triedN    int64           // own events up to here may be in the file already
	peers     map[int64]*peer // everybody who holds something; this limiter, too
	trail     trail
	dropable  []int64 // events off the trail that are in force no more
	follows   string  // which file this memory follows; empty for none
	told      []*waiter
	usedUntil int64 // all minutes count as used until this instant; 0 for none
	keep      int64 // how long an event is kept for the minute, in nanoseconds
	stirred   bool  // others made a change since the lines were last served,
	requoted  bool  // and one of a quota
	adopting  *belongings
	abandoned []*Reservation // that are garbage, and not settled,
	wanted    bool           // and somebody may want their slots
	sweepAt   int64          // when what is long over is to be looked for again
	spanAt    int64          // when others are to be asked again how long their minute is
	watching  bool           // a goroutine looks for changes, because somebody waits
	renewAt   int64
	renewing  *time.Timer
	leased    bool            // the timer runs
	quotas    map[string]bool // the models of which the file has one
	peersAt   int64           // when peers are to be looked after again
}

// ledgerOptions are those fields of Config that are the ledger's.
type ledgerOptions struct {
	durability string
	ttl        time.Duration
	failClosed bool
	freshStart bool
}

// The values of Config.Durability.
const (
	durableProcess = "process"
	durablePower   = "power"
)

const (
	defaultLeaseTTL = 10 * time.Second
	leastLeaseTTL   = 100 * time.Millisecond // lest the file is written all the time
)

// peer is what one process holds.
type peer struct {
	open  map[int64]*held
	waits map[int64]*waiter
}

// held is a reservation that is not settled.
type held struct {
	other  *Reservation              // of another process, or
	own    weak.Pointer[Reservation] // of this one
	seq    int64                     // where the event is in the file
	passed bool                      // it is kept there only because it is open
}

func (h *held) reservation() *Reservation {
	if h.other != nil {
		return h.other
	}
	return h.own.Value()
}

// isSlotless reports whether the slot was taken from a process that was taken for dead.
func (h *held) isSlotless() bool {
	r := h.reservation()
	return r != nil && r.isSlotless()
}

// holds reports whether others wait for anything that the process holds.
func (p *peer) holds() bool {
	if len(p.waits) > 0 {
		return true
	}
	for _, h := range p.open {
		if !h.isSlotless() {
			return true
		}
	}
	return false
}

func (s *ledger) peerLocked(process int64) *peer {
	p := s.peers[process]
	if p == nil {
		p = &peer{open: make(map[int64]*held), waits: make(map[int64]*waiter)}
		s.peers[process] = p
	}
	return p
}

// openLedger opens the database for a limiter that shares it, and takes over what it
// holds.
func openLedger(rl *RateLimiter, path string, cfg Config) error {
	s := &ledger{
		rl: rl,
		options: ledgerOptions{
			durability: cfg.Durability, ttl: cfg.LeaseTTL,
			failClosed: cfg.FailClosed, freshStart: cfg.FreshStart,
		},
		id:       rand.Int64N(1<<62) + 1,
		machine:  clock.ReadMachine(&rl.clock),
		turn:     make(chan struct{}, 1),
		reporter: reporter.New(cfg.OnError),
		peers:    make(map[int64]*peer),
		quotas:   make(map[string]bool),
		keep:     rl.span(),
		packAt:   packFrom,
	}
	if s.options.ttl == 0 {
		s.options.ttl = defaultLeaseTTL
	}
	s.options.ttl = max(s.options.ttl, leastLeaseTTL)
	if err := s.open(path, cfg.Quotas); err != nil {
		s.reporter.Stop()
		return fmt.Errorf("open shared database: %w", err)
	}
	rl.ledger = s
	return nil
}

func (s *ledger) open(path string, quotas map[string]ModelQuota) (err error) {
	if err := fsx.CheckPath(path); err != nil {
		return err
	}
	if s.path, err = fsx.Target(fsx.Absolute(path)); err != nil {
		return err
	}
	folder := filepath.Dir(s.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := fsx.CheckLocal(folder); err != nil {
		return err
	}
	if s.lock, err = fsx.OpenFairLock(s.path + ".lock"); err != nil {
		return err
	}
	if err = s.lock.Lock(busyFor); err != nil {
		s.lock.Close()
		return fmt.Errorf("%s: %w", s.path, err)
	}
	defer func() {
		if err != nil {
			s.file.close()
			s.lock.Unlock()
			s.lock.Close()
			if s.life != nil {
				s.life.Release()
			}
		}
	}()
	if info, err := os.Stat(s.path); (err != nil || info.Size() == 0) && s.othersLive() {
		// The file was deleted, and those who know what was in it have not noticed yet.
		s.asUsed = !s.options.freshStart
	}
	if s.life, err = fsx.HoldLife(s.lifePath(s.id)); err != nil {
		return err
	}
	if err := s.openFile(busyFor); err != nil {
		return err
	}
	if err := s.enter(func() { s.declareLocked(quotas) }); err != nil {
		return explainFile(s.path, err)
	}
	if err := s.lock.Unlock(); err != nil {
		return err
	}
	s.turn <- struct{}{}
	return nil
}

// enter is join for a limiter that opens the file. It removes what dead processes have left
// beside the file, but only of those that were dead before the file was read: join has ended what
// they held. A process that dies after that keeps its life file, by which others learn of it.
func (s *ledger) enter(declare func()) error {
	dead, temps := s.deadLives()
	if err := s.join(busyFor, declare); err != nil {
		return err
	}
	for _, path := range dead {
		fsx.RemoveDead(path)
	}
	for _, path := range temps {
		fsx.SweepTemp(path)
	}
	return nil
}

// declareLocked writes the quotas that the program said itself.
func (s *ledger) declareLocked(quotas map[string]ModelQuota) {
	for model, q := range quotas {
		if s.quotas[model] && s.rl.Quotas[model] == q {
			continue // the file says the same
		}
		s.rl.Quotas[model] = q
		delete(s.rl.provenance.supplied, model)
		s.noteQuotaLocked(model, q)
	}
}

// lifePath is the file that a limiter keeps locked as long as it lives.
func (s *ledger) lifePath(process int64) string {
	return fmt.Sprintf("%s.%016x.life", s.path, process)
}

// lives returns the life files of all limiters of the file, and the temporary ones that
// became none.
func (s *ledger) lives() (files, temps []string) {
	folder, base := filepath.Split(s.path)
	entries, _ := os.ReadDir(folder) // without them nobody is known, and nothing removed
	for _, entry := range entries {
		rest, isTemp := strings.CutPrefix(entry.Name(), "."+base+".")
		if !isTemp {
			rest, _ = strings.CutPrefix(entry.Name(), base+".")
		}
		if len(rest) < 16 || !entry.Type().IsRegular() {
			continue
		}
		_, err := strconv.ParseUint(rest[:16], 16, 64)
		switch path := filepath.Join(folder, entry.Name()); {
		case err != nil:
		case isTemp && strings.HasPrefix(rest[16:], ".life.tmp-"):
			temps = append(temps, path)
		case !isTemp && rest[16:] == ".life":
			files = append(files, path)
		}
	}
	return files, temps
}

// othersLive reports whether there are limiters of the file.
func (s *ledger) othersLive() bool {
	files, _ := s.lives()
	return slices.ContainsFunc(files, func(path string) bool { return fsx.LivenessOf(path) == fsx.Alive })
}

// deadLives returns the life files of the dead, also of those that the database does not know:
// of one that died while it opened it, or before it was replaced; and the temporary ones.
func (s *ledger) deadLives() (dead, temps []string) {
	files, temps := s.lives()
	return slices.DeleteFunc(files, func(path string) bool { return fsx.LivenessOf(path) != fsx.Dead }), temps
}

// do makes a change: work is called with RateLimiter.mu held, once, when memory knows all
// that others have done, and nobody else makes a change meanwhile. It returns when the
// change is in the file, or in the outbox because the file failed. It fails only where
// ctx ends before the turn comes, and work was not called then.
func (s *ledger) do(ctx context.Context, work func()) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	return s.step(ctx, work)
}

// step is do for who has the turn in this process.
func (s *ledger) step(ctx context.Context, work func()) error {
	if s.file == nil || s.down.Load() {
		s.inMemory(work)
		return nil
	}
	worked := false
	news, err := s.begin(ctx)
	if err == nil {
		worked, err = s.inFile(work, news)
		if unlockErr := s.lock.Unlock(); err == nil {
			err = unlockErr
		}
	}
	if errors.Is(err, errNoTimeLeft) {
		// The caller's time is over, and the file may be all right.
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if err != nil {
		s.fail(err)
		if !worked {
			s.inMemory(work)
			return nil
		}
	}
	s.tell()
	return nil
}

// inMemory makes a change while the file is down.
func (s *ledger) inMemory(work func()) {
	s.rl.mu.Lock()
	s.settleAbandonedLocked()
	work()
	s.rl.mu.Unlock()
	s.tell()
}

// tell lets those go on whose wait has ended. It comes after the change was written,
// because what they got must be in the file by then.
func (s *ledger) tell() {
	s.rl.mu.Lock()
	told := s.told
	s.told = nil
	s.rl.mu.Unlock()
	for _, w := range told {
		close(w.done)
	}
}

// errNoTimeLeft says that a caller's time was over before the turn came.
var errNoTimeLeft = errors.New("no time left to wait for the turn")

// begin takes the turn of all processes, and begins a transaction. It tells whether there
// may be news from others.
func (s *ledger) begin(ctx context.Context) (news bool, err error) {
	if err := s.lockTurn(ctx); err != nil {
		return false, err
	}
	s.rl.mu.RLock()
	seen := s.seen
	s.rl.mu.RUnlock()
	news = !s.lock.HasMark(seen)
	if err = s.lock.InPlace(); err == nil {
		err = s.file.inPlace()
	}
	if err == nil {
		err = s.file.begin(ctx, lockedFor)
	}
	if err != nil {
		s.lock.Unlock()
	}
	return news, err
}

// lockTurn waits for the turn of this process, in small pieces: nothing else could end the
// wait. Who stops waiting keeps the place in line for the next call.
func (s *ledger) lockTurn(ctx context.Context) error {
	for waited := time.Duration(0); ; {
		piece, err := timeLeft(ctx, min(lockedFor-waited, waitPiece))
		if err != nil {
			return err
		}
		if err := s.lock.Lock(piece); !errors.Is(err, fsx.ErrLockTimeout) {
			return err
		}
		if waited += piece; waited >= lockedFor {
			return fmt.Errorf("waited %v for the turn of another process: %w", lockedFor, fsx.ErrLockTimeout)
		}
	}
}

// waitPiece is how long a wait does not look whether its context has ended.
const waitPiece = 50 * time.Millisecond

// timeLeft returns how much of a time a context has left; errNoTimeLeft if none.
func timeLeft(ctx context.Context, most time.Duration) (time.Duration, error) {
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	if ctx.Err() != nil || most <= 0 {
		return 0, errNoTimeLeft
	}
	return most, nil
}

// inFile makes a change within a transaction, and ends that. Once work was called the
// change is in memory and in the outbox, whatever else fails.
func (s *ledger) inFile(work func(), mayBeNews bool) (worked bool, err error) {
	s.rl.mu.RLock()
	seen, instant := s.seen, s.rl.clock.Now()
	long, asks := s.trail.long(s, instant), instant >= s.spanAt
	s.rl.mu.RUnlock()
	var news []*event
	var img *image
	var folded, span int64
	if asks {
		// One that opened the file lately may count by a longer minute.
		span, err = s.file.writer.fact(factSpan)
	}
	if err == nil && mayBeNews {
		var complete bool
		news, complete, err = s.file.writer.newsSince(seen)
		if err == nil && !complete {
			img, err = s.file.writer.readAll()
		}
	}
	if err == nil && long {
		folded, err = s.file.writer.fact(factFolded)
	}
	if err != nil {
		s.file.rollback()
		return false, err
	}
	s.rl.mu.Lock()
	if asks {
		s.keep, s.spanAt = max(s.keep, span), instant+minute
	}
	if img != nil {
		s.adoptLocked(img)
	} else {
		s.applyNewsLocked(news)
		s.trail.cut(s, s.rl.clock.Now(), folded)
	}
	s.serveLocked()
	s.settleAbandonedLocked()
	work()
	b := s.batchLocked()
	s.rl.mu.Unlock()
	if len(b.events) == 0 && !b.renew {
		s.file.rollback()
		return true, nil
	}
	return true, s.store(&b)
}

// store ends a transaction by what there is to write. The stamp comes before the commit:
// one that is killed in between leaves a stamp that nobody has seen the event of, and all
// ask SQLite, until the next change.
func (s *ledger) store(b *ledgerBatch) error {
	err := b.write(s)
	if err == nil {
		err = s.lock.SetMark(b.last())
	}
	if err != nil {
		s.file.rollback()
		return err
	}
	if err := s.file.commit(); err != nil {
		return err
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	for i, e := range b.events {
		s.confirmLocked(e.key(), b.first+int64(i))
	}
	return nil
}

// serveLocked serves those who wait after others have made changes.
func (s *ledger) serveLocked() {
	switch {
	case s.requoted:
		s.rl.requoteLocked()
	case s.stirred:
		s.rl.serveAllLocked()
	}
	s.requoted, s.stirred = false, false
}

// ledgerBatch is what one transaction writes.
type ledgerBatch struct {
	events []*event
	first  int64      // the place of the first of them
	passed []*event   // which count no more
	drops  [][2]int64 // from and to which place events are to be deleted
	now    int64      // in UnixNano
	mono   int64      // the same in the machine's time; 0 if unknown
	sweep  bool
	renew  bool
	vouch  []int64 // processes whose lease went with another file
}

// batchLocked notes what is to be written. Only a transaction that adds an event deletes
// any, so that the last place in the file is never given twice.
func (s *ledger) batchLocked() ledgerBatch {
	instant, wall, mono := s.instantLocked()
	b := ledgerBatch{
		events: s.outbox, first: s.seen + 1,
		now: wall, mono: mono,
		renew: instant >= s.renewAt && s.holdsLocked(),
	}
	if len(b.events) > 0 {
		s.triedN = s.lastN
		b.passed, b.drops = s.trail.expired(s, instant)
		if instant >= s.sweepAt {
			b.sweep, s.sweepAt = true, instant+minute
		}
	}
	if b.renew {
		s.renewAt = instant + int64(s.options.ttl)/3
	}
	return b
}

// last is the last place in the file when the batch is written.
func (b *ledgerBatch) last() int64 { return b.first + int64(len(b.events)) - 1 }

func (b *ledgerBatch) write(s *ledger) error {
	w := s.file.writer
	for i, e := range b.events {
		if err := w.write(e, b.first+int64(i)); err != nil {
			return err
		}
		if e.kind == eventReset && s.rl.naming.matchVersions {
			if err := w.endCooldowns(func(name string) bool { return s.countsAs(name, e.model) }); err != nil {
				return fmt.Errorf("write event: %w", err)
			}
		}
	}
	if err := w.fold(b.passed); err != nil {
		return fmt.Errorf("fold events: %w", err)
	}
	for _, d := range b.drops {
		if err := w.drop(d[0], d[1]); err != nil {
			return fmt.Errorf("drop events: %w", err)
		}
	}
	if b.sweep {
		if err := w.sweep(b.now); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	if b.renew {
		if err := w.renew(s.id, b.now, b.mono, s.options.ttl); err != nil {
			return fmt.Errorf("renew lease: %w", err)
		}
	}
	for _, id := range b.vouch {
		// It has time to come and say that it lives.
		if err := w.vouch(id, b.now, b.mono, s.options.ttl); err != nil {
			return fmt.Errorf("vouch for process: %w", err)
		}
	}
	return nil
}

// countsAs reports whether a model is counted under a name.
func (s *ledger) countsAs(model, name string) bool {
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.rl.nameRLocked(model) == name
}

// confirmLocked notes that an own event is in the file.
func (s *ledger) confirmLocked(key eventKey, seq int64) {
	for i, e := range s.outbox {
		if e.key() != key {
			continue
		}
		if i == 0 {
			s.outbox = s.outbox[1:]
		} else {
			s.outbox = append(append([]*event(nil), s.outbox[:i]...), s.outbox[i+1:]...)
		}
		e.seq = seq
		s.trail.push(e)
		if p := s.peers[e.process]; p != nil && e.kind == eventReserve {
			if h := p.open[e.n]; h != nil {
				h.seq = seq
			}
		}
		break
	}
	s.seen = max(s.seen, seq)
}

// applyNewsLocked applies what others have written.
func (s *ledger) applyNewsLocked(news []*event) {
	instant := s.rl.clock.Sync()
	for _, e := range news {
		if e.seq <= s.seen {
			continue // by somebody who read it meanwhile
		}
		if e.process == s.id {
			s.confirmLocked(e.key(), e.seq)
			continue
		}
		s.dateLocked(e, instant, s.seenAt)
		s.applyLocked(e, instant)
		s.trail.push(e)
		s.seen = e.seq
		s.stirred = true
	}
	s.seenAt = instant
}

// instantLocked returns the present instant, and what the clocks say of it.
func (s *ledger) instantLocked() (instant, wall, mono int64) {
	instant = s.rl.clock.Sync()
	return instant, s.rl.clock.UnixNano(instant), s.machine.At(instant)
}

// clocks returns what the wall clock and that of the machine say now.
func (s *ledger) clocks() (wall, mono int64) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	_, wall, mono = s.instantLocked()
	return wall, mono
}

// fresh brings memory up to date with the file, as far as that has changed.
func (s *ledger) fresh() {
	if s.down.Load() || s.closed.Load() {
		return
	}
	err := s.catchUp()
	if err == nil {
		s.lookAfterPeers()
		return
	}
	if !isBusy(err) {
		s.do(background, func() {}) // puts that right, or finds out what is wrong
	}
}

// checkEvery is how long the stamp is relied on.
const checkEvery = int64(25 * time.Millisecond)

// errIncomplete says that events were deleted before this limiter read them, which did
// not look for minutes. The next change reads the whole file.
var errIncomplete = errors.New("events are missing")

// catchUp reads what is new. The stamp in the lock file tells nearly always that nothing
// is, in a tenth of the time of the question to SQLite; but it does not tell that the file
// is gone.
func (s *ledger) catchUp() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.file == nil {
		return nil
	}
	s.rl.mu.RLock()
	seen, instant := s.seen, s.rl.clock.Now()
	long := s.trail.long(s, instant)
	s.rl.mu.RUnlock()
	if instant < s.checkAt && s.lock.HasMark(seen) {
		return nil
	}
	s.checkAt = instant + checkEvery
	if err := s.file.inPlace(); err != nil {
		return err
	}
	version, err := s.file.reader.number("PRAGMA data_version")
	if err != nil || version == s.version {
		return err
	}
	news, complete, err := s.file.reader.newsSince(seen)
	if err == nil && !complete {
		err = errIncomplete
	}
	if err != nil {
		return err
	}
	var folded int64
	if long {
		if folded, err = s.file.reader.fact(factFolded); err != nil {
			return err
		}
	}
	s.version = version
	if len(news) > 0 {
		s.rl.mu.Lock()
		s.applyNewsLocked(news)
		s.trail.cut(s, instant, folded)
		s.rl.mu.Unlock()
	}
	return nil
}

// overrule denies what the state of the ledger does not permit.
func (s *ledger) overrule(d *Decision) {
	if d.Code == DecisionInvalidTokens {
		return
	}
	if s.closed.Load() {
		d.Allowed, d.Never, d.RetryAfter = false, true, 0
		d.Code, d.Reason = DecisionClosed, "the limiter is closed"
	} else if s.refuses() {
		d.Allowed, d.Never, d.RetryAfter = false, false, 0
		d.Code, d.Reason = DecisionStoreError, "the shared database cannot be used"
	}
}

// refuses reports whether nothing is admitted because the file is down.
func (s *ledger) refuses() bool { return s.options.failClosed && s.down.Load() }

// Err returns the error that keeps the limiter from using the shared database; nil while it can
// use it, and without Config.Shared. Meanwhile the limiter decides by the last state that it read
// and by its own charges, or denies with Config.FailClosed. It writes its charges when the
// database is back. Err checks that the database is in its place, but does not write to it;
// Persist does. It is safe for concurrent use.
func (rl *RateLimiter) Err() error {
	if rl.ledger == nil {
		return nil
	}
	rl.ledger.fresh()
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	return rl.ledger.err
}

// update is change for what is forgotten once a shared limiter is closed.
func (rl *RateLimiter) update(work func()) {
	if rl.ledger == nil || !rl.ledger.closed.Load() {
		rl.change(background, work)
	}
}

// change makes a change, as one step of all processes where the limiter shares a
// database. It fails only where ctx ends before it comes to that.
func (rl *RateLimiter) change(ctx context.Context, work func()) error {
	if rl.ledger != nil {
		return rl.ledger.do(ctx, work)
	}
	rl.mu.Lock()
	work()
	rl.mu.Unlock()
	return nil
}

// close gives up what this limiter holds, and closes the file. What could not be written
// is lost, and named in the error.
func (s *ledger) close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	if s.closed.Load() {
		return nil
	}
	if s.down.Load() {
		s.recover(lockedFor)
	}
	s.step(background, func() {
		s.rl.endLinesLocked()
		s.noteNowLocked(&event{kind: eventGone, ref: s.id}, nil)
		s.closed.Store(true)
	})
	s.stopRecovery()
	s.rl.mu.Lock()
	lost, cause := s.unwrittenLocked(), s.err
	if s.renewing != nil {
		s.renewing.Stop()
	}
	s.rl.mu.Unlock()

	s.reading.Lock()
	err := s.file.close()
	s.file = nil
	s.reading.Unlock()
	err = errors.Join(err, s.life.Release(), s.lock.Close())
	s.reporter.Stop()
	if lost > 0 && cause != nil {
		err = errors.Join(fmt.Errorf("could not write the last changes (%d): %w", lost, cause), err)
	}
	return err
}
