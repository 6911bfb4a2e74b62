// Limits that are found, against a model of what they may admit.

package foundlimits

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// adaptiveModel is what the oracle knows of a model. The limits that are known are those of a twin,
// a limiter without limits that are found, which is told of the same calls.
type adaptiveModel struct {
	quota ratelimit.ModelQuota
	sent  []*adaptiveSent // of the calls of the last minute that were not cancelled
	// due is when the next call passes at the latest, if the rate stays: each call takes a gap,
	// also those that nobody asked for.
	due   time.Time
	used  time.Time // when a call was charged last
	given time.Time // when a call was cancelled last: the one before it was spaced by an earlier rate
	open  int
	found ratelimit.ModelStats // what was found when it was last looked at
}

// adaptiveSent is a call that was admitted, and the highest rate that there was since.
type adaptiveSent struct {
	at  time.Time
	rpm int
}

type adaptiveCall struct {
	model      string
	real, twin *ratelimit.Reservation
	sent       *adaptiveSent
}

type adaptivePlay struct {
	t        *testing.T
	random   *rand.Rand
	limiters []*ratelimit.RateLimiter // of one store, or one alone
	twin     *ratelimit.RateLimiter
	models   map[string]*adaptiveModel
	began    time.Time
	names    []string
	open     []*adaptiveCall
	trace    []string // what was done last
	moves    int      // of limits that were found
	admitted int
	denied   int // only by what was found
}

func newAdaptivePlay(t *testing.T, random *rand.Rand, n int, cfg ratelimit.Config) *adaptivePlay {
	p := &adaptivePlay{t: t, random: random, models: make(map[string]*adaptiveModel), began: time.Now()}
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	bounds := func(floors ...int) (floor, ceiling int) {
		floor = pick(floors...)
		return floor, floor * pick(1, 2, 10, 100)
	}
	known := map[string]ratelimit.ModelQuota{}
	cfg.Quotas = map[string]ratelimit.ModelQuota{}
	for i := range 3 {
		q := ratelimit.ModelQuota{
			MaxRPM: pick(0, 0, 5, 60, 500), MaxTPM: pick(0, 0, 500, 5000), MaxRPD: pick(0, 0, 300), MaxInFlight: pick(0, 0, 3, 12),
		}
		name := fmt.Sprint("model ", i)
		known[name] = q
		if i != 1 {
			q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = bounds(1, 7, 60, 600)
		}
		if i != 0 {
			q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight = bounds(1, 2, 5)
		}
		cfg.Quotas[name] = q
		p.names = append(p.names, name)
		p.models[name] = &adaptiveModel{quota: q}
	}
	p.twin = limitertest.With(t, ratelimit.Config{Quotas: known})
	for range n {
		p.limiters = append(p.limiters, adaptiveOpen(t, cfg))
	}
	p.look("at first", nil)
	return p
}

// note keeps what was done for the message of a test that fails.
func (p *adaptivePlay) note(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf("%v: ", time.Since(p.began))+fmt.Sprintf(format, args...))
	p.trace = p.trace[max(len(p.trace)-25, 0):]
}

func (p *adaptivePlay) fail(format string, args ...any) {
	p.t.Helper()
	p.note(format, args...)
	for _, name := range p.names {
		m := p.models[name]
		p.note("%s: %+v, found %d/%d, %d open", name, m.quota, m.found.AdaptiveRPM, m.found.AdaptiveInFlight, m.open)
	}
	p.t.Fatal(strings.Join(p.trace, "\n"))
}

// any returns one of the limiters, which then knows what the others have done.
func (p *adaptivePlay) any() *ratelimit.RateLimiter {
	rl := p.limiters[p.random.IntN(len(p.limiters))]
	p.catchUp(rl)
	return rl
}

func (p *adaptivePlay) catchUp(rl *ratelimit.RateLimiter) {
	if len(p.limiters) > 1 {
		adaptiveCatchUp(p.t, rl)
	}
}

// adaptiveMoved is which limits of which model may have moved, and how.
type adaptiveMoved struct{ model, rate, slots string }

// look asks all limiters what was found. They must agree, within the bounds, and only what may
// have moved has; nil is anything.
func (p *adaptivePlay) look(when string, may *adaptiveMoved) {
	p.t.Helper()
	for _, name := range p.names {
		m := p.models[name]
		was, now := m.found, p.limiters[0].Stats(name)
		for i, rl := range p.limiters {
			p.catchUp(rl)
			s := rl.Stats(name)
			if i == 0 {
				now = s
			}
			if s.AdaptiveRPM != now.AdaptiveRPM || s.AdaptiveInFlight != now.AdaptiveInFlight || s.InFlight != m.open {
				p.fail("%s, %s: limiter %d finds %d/%d with %d in flight, the first %d/%d, want %d in flight", when, name, i,
					s.AdaptiveRPM, s.AdaptiveInFlight, s.InFlight, now.AdaptiveRPM, now.AdaptiveInFlight, m.open)
			}
		}
		q := &m.quota
		if now.AdaptiveRPM < q.AdaptiveFloorRPM || now.AdaptiveRPM > q.AdaptiveCeilingRPM ||
			now.AdaptiveInFlight < q.AdaptiveFloorInFlight || now.AdaptiveInFlight > q.AdaptiveCeilingInFlight {
			p.fail("%s, %s: found %d/%d outside of %+v", when, name, now.AdaptiveRPM, now.AdaptiveInFlight, q)
		}
		m.found = now
		m.sent = slices.DeleteFunc(m.sent, func(c *adaptiveSent) bool { return time.Since(c.at) >= time.Minute })
		for _, c := range m.sent {
			c.rpm = max(c.rpm, now.AdaptiveRPM)
		}
		if may == nil {
			continue
		}
		for _, limit := range []struct {
			name, may string
			was, now  int
		}{{"rate", may.rate, was.AdaptiveRPM, now.AdaptiveRPM}, {"slots", may.slots, was.AdaptiveInFlight, now.AdaptiveInFlight}} {
			if limit.was == limit.now {
				continue
			}
			p.moves++
			up := limit.now > limit.was
			aged := !up && may.model == "" // while time passes
			if !aged && (may.model != name || up && limit.may != "up" || !up && limit.may != "down") {
				p.fail("%s, %s: the %s went from %d to %d", when, name, limit.name, limit.was, limit.now)
			}
		}
		m.slower(was.AdaptiveRPM)
	}
}

// slower follows a rate that is lower than it was: what is owed grows with the gap, and the gap
// behind the latest call is that of the present rate.
func (m *adaptiveModel) slower(was int) {
	if now := m.found.AdaptiveRPM; now > 0 && now < was {
		if owed := m.due.Sub(m.used); owed > 0 {
			m.due = m.used.Add(owed*time.Duration(was+1)/time.Duration(now) + 1)
		}
		if behind := m.used.Add(adaptiveGap(now)); m.due.Before(behind) {
			m.due = behind
		}
	}
}

// charged notes a call that was admitted or recorded.
func (p *adaptivePlay) charged(name string) *adaptiveSent {
	m, now := p.models[name], time.Now()
	sent := &adaptiveSent{now, m.found.AdaptiveRPM}
	m.sent, m.used = append(m.sent, sent), now
	if m.found.AdaptiveRPM > 0 {
		if m.due.Before(now) {
			m.due = now
		}
		m.due = m.due.Add(adaptiveGap(m.found.AdaptiveRPM))
	}
	return sent
}

// why returns what may deny a call of a model now, and what must: limits that are found.
func (p *adaptivePlay) why(name string) (may, must ratelimit.DecisionCode) {
	m, now := p.models[name], time.Now()
	if n := m.found.AdaptiveInFlight; n > 0 && m.open >= n {
		if now.Sub(m.used) > time.Minute { // what has aged since applies from the next call on
			return ratelimit.DecisionInFlightLimit, ""
		}
		return ratelimit.DecisionInFlightLimit, ratelimit.DecisionInFlightLimit
	}
	if rpm := m.found.AdaptiveRPM; rpm > 0 {
		for _, c := range m.sent {
			if now.Sub(m.given) > time.Minute && adaptiveTooClose(now.Sub(c.at), rpm) || adaptiveTooClose(now.Sub(c.at), c.rpm) {
				must = ratelimit.DecisionRPMLimit
			}
		}
		if now.Before(m.due) {
			may = ratelimit.DecisionRPMLimit
		}
	}
	return may, must
}

// reserve asks for one call, or for one of each of two models.
func (p *adaptivePlay) reserve() {
	rl := p.limiters[p.random.IntN(len(p.limiters))]
	reqs := []ratelimit.Request{{Model: p.names[p.random.IntN(len(p.names))], PromptTokens: p.random.IntN(20), OutputTokens: p.random.IntN(20)}}
	if p.random.IntN(8) == 0 {
		other := reqs[0]
		other.Model = p.names[(slices.Index(p.names, other.Model)+1)%len(p.names)]
		reqs = append(reqs, other)
	}
	twins, known := p.twin.ReserveAll(reqs...)
	calls, d := rl.ReserveAll(reqs...)
	p.note("Reserve %+v: %s %q after %v", reqs, d.Code, d.Reason, d.RetryAfter)
	var may, must ratelimit.DecisionCode
	wait, ends := known.RetryAfter, false // no time tells when a call ends
	for _, req := range reqs {
		mayOne, mustOne := p.why(req.Model)
		may, must = max(may, mayOne), max(must, mustOne)
		ends = ends || mayOne == ratelimit.DecisionInFlightLimit || known.Code == ratelimit.DecisionInFlightLimit
		if left := time.Until(p.models[req.Model].due); mayOne == ratelimit.DecisionRPMLimit {
			wait = max(wait, left)
		}
	}
	switch {
	case d.Allowed && (!known.Allowed || must != ""):
		p.fail("it passes, but the known limits say %s after %v, and those that are found %q", known.Code, known.RetryAfter, must)
	case !d.Allowed && known.Allowed && may == "":
		p.fail("it does not pass, and nothing denies it")
	case !d.Allowed && known.Allowed && len(reqs) == 1 && d.Code != may:
		p.fail("it is denied, want %q", may)
	case !d.Allowed && (d.Never || d.RetryAfter > wait || d.RetryAfter < known.RetryAfter && !ends):
		p.fail("it passes after %v, want %v to %v", d.RetryAfter, known.RetryAfter, wait)
	}
	if !d.Allowed {
		twins.Cancel()
		if known.Allowed {
			p.denied++
		}
		if len(reqs) == 1 {
			p.exact(reqs[0], d)
		}
		return
	}
	for _, req := range reqs {
		p.models[req.Model].open++
	}
	for i, req := range reqs { // the limits may have risen with it
		p.lookOnly(&adaptiveMoved{req.Model, "up", "up"}, reqs)
		p.open = append(p.open, &adaptiveCall{req.Model, calls[i], twins[i], p.charged(req.Model)})
		p.admitted++
	}
}

// lookOnly is look after a change of several models.
func (p *adaptivePlay) lookOnly(may *adaptiveMoved, reqs []ratelimit.Request) {
	p.catchUp(p.limiters[0])
	for _, req := range reqs {
		if req.Model != may.model { // it is looked at by itself
			m := p.models[req.Model]
			s := p.limiters[0].Stats(req.Model)
			if s.AdaptiveRPM >= m.found.AdaptiveRPM && s.AdaptiveInFlight >= m.found.AdaptiveInFlight {
				m.found = s
			}
		}
	}
	p.look("after a call", may)
}

// exact checks that a call passes after RetryAfter, and not a nanosecond before.
func (p *adaptivePlay) exact(req ratelimit.Request, d ratelimit.Decision) {
	idle := time.Since(p.models[req.Model].used) + d.RetryAfter // slots age after a minute
	if d.RetryAfter <= 0 || idle > time.Minute || p.random.IntN(3) > 0 {
		return
	}
	rl := p.any()
	time.Sleep(d.RetryAfter - 1)
	if early := rl.DecideRequest(req); early.Allowed || early.RetryAfter != 1 {
		p.fail("a nanosecond before it is %s after %v", early.Code, early.RetryAfter)
	}
	time.Sleep(time.Nanosecond)
	if late := rl.DecideRequest(req); !late.Allowed {
		p.fail("after RetryAfter it is %s %q after %v", late.Code, late.Reason, late.RetryAfter)
	}
	p.look("after a wait", &adaptiveMoved{})
}

// settle ends one of the open calls.
func (p *adaptivePlay) settle() {
	if len(p.open) == 0 {
		return
	}
	i := p.random.IntN(len(p.open))
	c := p.open[i]
	m := p.models[c.model]
	p.open = slices.Delete(p.open, i, i+1)
	m.open--
	p.note("the end of a call of %s of %v", c.model, c.sent.at.Sub(p.began))
	if p.random.IntN(4) == 0 {
		p.note("which is cancelled")
		c.real.Cancel()
		c.twin.Cancel()
		if i := slices.Index(m.sent, c.sent); i >= 0 {
			m.sent, m.given = slices.Delete(m.sent, i, i+1), time.Now()
		}
	} else {
		input, output := p.random.IntN(40), p.random.IntN(40)
		c.real.Commit(input, output)
		c.twin.Commit(input, output)
	}
	p.look("after the end of a call", &adaptiveMoved{c.model, "", "up"})
}

func (p *adaptivePlay) refuse() {
	name := p.names[p.random.IntN(len(p.names))]
	problems := []string{"rate_limited", "overloaded", "timeout", "daily_quota", "exhausted", "other", "?"}
	r := ratelimit.ProviderRefusal{Model: name, Status: 400 + p.random.IntN(130), Problem: problems[p.random.IntN(len(problems))]}
	if p.random.IntN(2) == 0 {
		r.SentAt = time.Now().Add(-time.Duration(p.random.Int64N(int64(10 * time.Second))))
	}
	p.note("refusal of %s: %s", name, r.Problem)
	may := adaptiveMoved{model: name}
	switch r.Problem {
	case "rate_limited":
		may.rate = "down"
	case "overloaded", "timeout":
		may.slots = "down"
	}
	for range 1 + p.random.IntN(3) {
		p.any().ObserveRefusal(p.t.Context(), r)
	}
	p.look("after refusals: "+r.Problem, &may)
}

// requote gives a model other bounds.
func (p *adaptivePlay) requote() {
	name := p.names[p.random.IntN(len(p.names))]
	m := p.models[name]
	if q := &m.quota; p.random.IntN(2) == 0 && q.AdaptiveFloorRPM > 0 {
		q.AdaptiveFloorRPM = 1 + p.random.IntN(200)
		q.AdaptiveCeilingRPM = q.AdaptiveFloorRPM + p.random.IntN(2000)
	} else if q.AdaptiveFloorInFlight > 0 {
		q.AdaptiveFloorInFlight = 1 + p.random.IntN(5)
		q.AdaptiveCeilingInFlight = q.AdaptiveFloorInFlight + p.random.IntN(20)
	}
	p.note("quota of %s: %+v", name, m.quota)
	p.any().SetQuota(name, m.quota)
	was := m.found
	p.look("after another quota", nil)
	m.slower(was.AdaptiveRPM)
}

func (p *adaptivePlay) run(steps int) {
	for range steps {
		switch what := p.random.IntN(40); {
		case what < 20:
			p.reserve()
		case what < 30:
			p.settle()
		case what < 33:
			p.refuse()
		case what == 33:
			name := p.names[p.random.IntN(len(p.names))]
			p.note("record of %s", name)
			p.any().RecordUsage(name, 3, 4)
			p.twin.RecordUsage(name, 3, 4)
			p.look("after a record", &adaptiveMoved{name, "up", "up"})
			p.charged(name)
		case what == 34 && p.random.IntN(4) == 0:
			p.requote()
		default:
			time.Sleep(time.Duration(p.random.Int64N(int64(time.Second) << p.random.IntN(6))))
			p.look("after a pause", &adaptiveMoved{})
		}
	}
	for len(p.open) > 0 {
		p.settle()
	}
	if p.admitted == 0 || p.denied == 0 {
		p.t.Errorf("%d calls were admitted, and %d denied by what was found", p.admitted, p.denied)
	}
}

// A limiter decides as the model says, after random calls, refusals and settlements.
func TestAdaptiveAgainstOracle(t *testing.T) {
	lives, moves := 0, 0
	for seed := range racetest.Seeds(t, uint64(racetest.Times(30, 8, 30))) {
		lives++
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newAdaptivePlay(t, rand.New(rand.NewPCG(seed, 20)), 1, ratelimit.Config{})
				p.run(400)
				moves += p.moves
			})
		})
	}
	if moves < min(20, 5*lives) {
		t.Errorf("what was found moved %d times", moves)
	}
}

// So do several limiters of one store, together, and they agree on what was found.
func TestAdaptiveOfAStoreAgainstOracle(t *testing.T) {
	moves := 0
	for seed := range racetest.Seeds(t, uint64(racetest.Times(12, 3, 12))) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newAdaptivePlay(t, rand.New(rand.NewPCG(seed, 21)), 3, ratelimit.Config{Store: fakestore.New()})
				p.run(300)
				moves += p.moves
				for _, rl := range p.limiters {
					rl.Close()
				}
			})
		})
	}
	if moves < 8 {
		t.Errorf("what was found moved %d times", moves)
	}
}

// So do limiters that share a file.
func TestAdaptiveOfAFileAgainstOracle(t *testing.T) {
	limitertest.NeedSQLite(t)
	for seed := range racetest.Seeds(t, 1) {
		path := filepath.Join(t.TempDir(), "state.db")
		synctest.Test(t, func(t *testing.T) {
			cfg := ratelimit.Config{Shared: true, Backend: "sqlite", FilePath: path}
			p := newAdaptivePlay(t, rand.New(rand.NewPCG(seed, 24)), 2, cfg)
			p.run(racetest.Times(120, 60, 300))
		})
	}
}
