package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	round      = 100 * time.Millisecond // of silence, in which another one would have spoken
	stagger    = 75 * time.Millisecond  // between those that would say the same, by age
	tickEach   = time.Millisecond       // the least between two ticks of one process in the mean,
	ticksAhead = 16                     // and how many may come before that
	lookAgain  = time.Millisecond       // what changes within that needs one look, where nobody waits
	waitsSay   = time.Second            // how often one says that it lives that has waiters,
	idleSays   = 10 * time.Minute       // or nothing
	zonesAgain = time.Minute            // between two looks for a zone that this machine does not know
	watch      = 50 * time.Millisecond  // between two looks for deaths that can be seen, of one with waiters
)

// life is what a process does by itself.
type life struct {
	spokeAt   time.Time // when it sent something last
	ticks     *ask      // the last Tick
	ticksTo   time.Time // where the Ticks so far, one each tickEach, would end
	buries    *ask      // the last Gone
	joinsAt   time.Time // when its Join was made,
	joinedAt  time.Time // and when that was heard
	isTold    bool      // it was told the time, and has not heard since how long ago
	sayTimeAt time.Time // when it says the time to a newcomer; zero for not
	watchedAt time.Time // when it looked for dead processes last,
	leasesEnd time.Time // and before which the lease of no other ends

	zones   *ask         // the last Bounds
	zonesAt account.Span // of the wall clock, in which all zones are known

	stamp     store.Stamp // of the last reply
	stampedAt time.Time
	newsAt    time.Time // when entries were heard last

	currentAt time.Time // when the last request was sent whose answer had all news
	failures  int       // since the last answer
	refusals  int       // of appends, since one was accepted,
	refusedAt time.Time // and when the first of them was sent
	failedAt  time.Time
	homeN     int64 // the last number of what is told first after an absence
	outageAt  int64 // the instant of the last Outage
	answered  int64 // the Outage that it has answered
	wasCutOff bool
	anew      bool    // the log was begun anew: each member may know what the others do not
	lostAt    int64   // the instant at which a log was lost whose facts are not told yet; 0 for none
	journal   journal // that was applied of it
	home      *ask    // the last of what is sent first on the way home; nil for nothing yet
	stray     bool    // there may be calls under own numbers that nobody knows
	leaves    bool    // it has said Bye, and does not come home
}

// heed takes in what an entry means for this process.
func (r *Replica) heed(is *result) {
	if is.Process == r.process {
		if _, joins := is.Result.Command.(fleet.Join); joins && r.status == joining {
			r.life.joinedAt = time.Now()
		}
	} else if is.Expect > 0 {
		if r.life.sayTimeAt = (time.Time{}); r.status == joining && !r.life.joinedAt.IsZero() {
			r.clock.set(r.state.Now())
			r.status, r.life.isTold = here, true
		}
	}
	switch c := is.Result.Command.(type) {
	case fleet.Verb:
		told, _ := c.Command.(engine.Charged)
		if !isCall(c.Command) {
			r.zone(account.Span{}) // a quota may name another zone
		} else if told.ID.Process == r.process && is.Process != r.process { // this one may not know it
			r.life.stray = r.life.stray || told.Open
		}
	case fleet.Join:
		r.life.leasesEnd = time.Time{}
		if is.Process != r.process && r.status == here && is.Expect == 0 {
			r.life.sayTimeAt = time.Now().Add(time.Duration(r.rank()) * stagger)
		}
	case fleet.Outage:
		r.life.outageAt = is.Result.Now.Instant
	case fleet.Saved:
		r.image, r.imageBy, r.imageAt = c, is.Process, time.Now()
		if is.Process == r.process {
			break
		}
		if r.kept, r.volume = r.volume, 0; r.digests.differs(c.Seq, c.Digest) {
			r.done.Go(func() { r.mend(c.Seq) })
		}
	}
}

// isCall reports whether a command of the log is about calls, and not about quotas.
func isCall(c engine.Command) bool {
	switch c.(type) {
	case *engine.Admit, engine.Enter, engine.Leave, *engine.Settle, engine.Arrive, engine.Record, engine.Charged, engine.Reprice:
		return true
	}
	return false
}

// tellZones says when the present day and month of all zones begin and end, where nobody has. What
// is asked behind it finds them known.
func (r *Replica) tellZones() {
	wall := r.clock.now().Wall
	if r.options.Bounds == nil {
		r.zonedUntil.Store(math.MaxInt64)
	}
	if r.options.Bounds == nil || r.status == joining || r.isOut(r.life.zones) || r.life.zonesAt.Holds(wall) {
		return
	}
	unknown, foreign := false, false
	r.state.Engine.Zones(wall, func(zone string) {
		day, month := r.options.Bounds(zone, wall)
		if month == (account.Span{}) {
			foreign = true
			return
		}
		unknown = true
		r.life.zones = r.putFirst(fleet.Verb{Command: engine.Bounds{Zone: zone, Day: day, Month: month}})
	})
	switch {
	case unknown:
	case foreign: // others may know the zone
		r.zone(account.Span{Begin: wall, End: wall + int64(zonesAgain)})
	default:
		r.zone(r.state.Engine.ZonesKnown(wall))
	}
}

// needsZones reports whether a day or a month may have begun that nobody has told.
func (r *Replica) needsZones() bool { return r.clock.now().Wall >= r.zonedUntil.Load() }

// zone notes in which span of the wall clock the days of all zones are known.
func (r *Replica) zone(known account.Span) {
	r.life.zonesAt = known
	r.zonedUntil.Store(known.End)
}

// ranks is how many members take turns at most. Of more, many may be dead, and nobody is to wait
// for all of them; that several say the same costs little.
const ranks = 16

// rank returns how many members are older that take turns with this one.
func (r *Replica) rank() (older int) {
	for m := range r.state.Members {
		if m.Process == r.process {
			break
		}
		older++
	}
	return older % ranks
}

// keep does what is due, until the replica is closed.
func (r *Replica) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.look:
			if later := r.mayLookLater(); later > 0 {
				select {
				case <-time.After(later):
				case <-r.lookNow:
				case <-r.ctx.Done():
				}
			}
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		next := r.act(time.Now())
		r.mu.Unlock()
		timer.Reset(time.Until(next))
	}
}

// act does what is due, and returns when to look again at the latest.
func (r *Replica) act(now time.Time) (next time.Time) {
	r.take()
	next = now.Add(time.Minute)
	due := func(at time.Time) bool {
		if at.After(now) {
			if at.Before(next) {
				next = at
			}
			return false
		}
		return true
	}
	if r.status == joining && !r.life.joinedAt.IsZero() {
		silence := round + time.Duration(min(r.state.Size(), ranks))*stagger
		if r.traits.Steady {
			silence = 0
		}
		if due(r.life.joinedAt.Add(silence)) {
			r.presume()
		}
	}
	switch r.status {
	case cutOff:
		if r.serveAllAlone(); len(r.asks.of) > 0 {
			due(now.Add(20 * time.Millisecond))
		}
	case here:
		r.live(now, due)
		r.tick(now, due)
		r.bury(now, due)
		r.saveImage(due)
	}
	return next
}

// catchUp sets the clock of a newcomer that hears late which time an entry has told it. The store's
// clock says how late: at most as long as it has waited, or else that clock has jumped.
func (r *Replica) catchUp(now account.Now) {
	if late := now.Instant - r.state.Now().Instant; 0 < late && late <= int64(time.Since(r.life.joinsAt)) {
		r.clock.set(now)
	}
}

// presume has a newcomer to whom nobody says the time expect what the store's clock says.
func (r *Replica) presume() {
	instant := max(r.state.TimeOf(r.life.stamp), r.state.Now().Instant) + int64(time.Since(r.life.stampedAt))
	r.clock.set(account.Now{Instant: instant, Wall: r.life.stamp.Wall + int64(time.Since(r.life.stampedAt))})
	r.status = here
	r.put(fleet.Alive{})
	if r.doubts { // the whole of each limit is withheld until a window has passed: nobody answers
		r.put(fleet.Outage{})
	}
	r.change()
}

// live says that the process lives, before others take it for dead, and the time to newcomers.
func (r *Replica) live(now time.Time, due func(time.Time) bool) {
	every := time.Duration(idleSays)
	if len(r.mine) > 0 {
		every = min(every, r.options.LeaseTTL/3)
	}
	if r.waits() {
		every = min(every, waitsSay)
	}
	says := due(r.life.spokeAt.Add(every))
	if at := r.life.sayTimeAt; !at.IsZero() && due(at) {
		says, r.life.sayTimeAt = true, time.Time{}
	}
	if says {
		r.life.spokeAt = now
		r.put(fleet.Alive{})
		due(now.Add(every))
	}
}

func (r *Replica) waits() bool { return len(r.asks.lined) > 0 }

// mayLookLater returns for how long nobody needs what the keeper does: no waiter, and no own call
// that expires.
func (r *Replica) mayLookLater() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != here || r.waits() {
		return 0
	}
	if !r.expires {
		return lookAgain
	}
	now := r.clock.expected()
	return time.Duration(r.state.Engine.DueOf(r.process, now+int64(lookAgain)) - now)
}

// tick has what is due happen, if waiters of this process may be served by it, or its calls expire:
// at once what is its own, what is another process's after a silence in which that does it.
func (r *Replica) tick(now time.Time, due func(time.Time) bool) {
	at := r.state.Engine.Due()
	if at == account.Never || !r.waits() && !r.expires {
		return
	}
	silence := round/2 + time.Duration(r.spread()*float64(round/2))
	at = r.state.Engine.DueOf(r.process, at+int64(silence))
	when := now.Add(time.Duration(at - r.clock.expected()))
	if again := r.life.ticksTo.Add(-ticksAhead * tickEach); again.After(when) {
		when = again
	}
	if !r.isOut(r.life.ticks) && due(when) {
		r.sendTick(now)
	}
}

// sendTick has everybody's engine do what is due.
func (r *Replica) sendTick(now time.Time) {
	if r.life.ticksTo.Before(now) {
		r.life.ticksTo = now
	}
	r.life.ticksTo = r.life.ticksTo.Add(tickEach)
	r.life.ticks = r.put(fleet.Tick{})
}

// isOut reports whether it is not known what came of an ask.
func (r *Replica) isOut(a *ask) bool { return a != nil && r.asks.of[a.n] == a }

// spread returns a number from 0 to 1 that differs from process to process.
func (r *Replica) spread() float64 {
	return rand.New(rand.NewPCG(uint64(r.process), uint64(r.state.Now().Instant))).Float64()
}

// bury says that others are gone: those whose death can be seen, and those that hold something and
// have been silent for a lease, all of which this process has listened.
func (r *Replica) bury(now time.Time, due func(time.Time) bool) {
	witness, sees := r.log.(store.Witness)
	if r.isOut(r.life.buries) || !due(r.buriesAt(sees)) {
		return
	}
	instant, rank, listened := r.clock.expected(), int64(r.rank()), now.Sub(r.steady)
	next := time.Minute
	for m := range r.state.Members {
		if m.Process == r.process {
			continue
		}
		left := max(time.Duration(m.HeardAt+rank*int64(stagger)+m.Lease-instant), time.Duration(m.Lease)-listened)
		silent := left < 0 && now.Sub(r.contact) <= r.traits.Contact
		if sees && witness.Dead(m.Process) || silent && r.holds(m.Process) {
			r.life.buries = r.put(fleet.Gone{Process: m.Process, N: m.N})
		}
		if left < 0 { // it says something before it holds anything again
			left = time.Duration(m.Lease)
		}
		next = min(next, left)
	}
	r.life.watchedAt, r.life.leasesEnd = now, now.Add(next)
	due(r.buriesAt(sees))
}

// buriesAt returns when to look for dead processes. No lease ends before leasesEnd; a death that
// can be seen is looked for all the time, most often where somebody waits here.
func (r *Replica) buriesAt(sees bool) time.Time {
	calls, waiters := r.state.Engine.Named()
	switch every := r.life.watchedAt.Add(time.Second); {
	case calls <= len(r.mine) && waiters <= len(r.asks.lined):
		return r.life.watchedAt.Add(time.Minute)
	case sees && r.waits():
		return r.life.watchedAt.Add(watch)
	case !sees && r.life.leasesEnd.After(every):
		return r.life.leasesEnd
	default:
		return every
	}
}

func (r *Replica) holds(process int64) bool {
	calls, waiters := r.state.Engine.Of(process)
	return len(calls)+len(waiters) > 0
}

// DigestError says that this process came to another state than the one that has saved an image.
type DigestError struct{ Seq int64 }

// Error implements error.
func (e *DigestError) Error() string {
	return fmt.Sprintf("the state of the shared quota differs from the image of entry %d: the image holds", e.Seq)
}

// mend goes on from the newest image after the outcomes differed.
func (r *Replica) mend(seq int64) {
	r.tell(&DigestError{seq})
	r.reload()
}

// reload goes on from the newest image, which may be older.
func (r *Replica) reload() {
	image, err := r.loadImage(r.ctx)
	if err != nil || image.IsZero() {
		return
	}
	s, err := fleet.Read(image.Bytes, r.options.Observer)
	if err != nil {
		r.tell(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if image.At.Log == r.at.Log {
		r.takeOver(s, &image, false)
	}
}
