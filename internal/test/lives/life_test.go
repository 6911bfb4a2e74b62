package lives

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// life makes the same calls of a limiter of each kind, and of the oracle, and compares what they
// say after each.
type life struct {
	*world
	seed   uint64
	random *rand.Rand // of the step
	houses []*house   // the private one first
	alone  bool       // there is no other

	// The oracle's books:
	quotas  map[string]ratelimit.ModelQuota // that stand,
	program map[string]ratelimit.ModelQuota // by what the program says
	account map[string]ratelimit.ModelQuota // and the account
	prices  map[string]money.Price
	models  map[string]*account // by the counted name
	pools   map[string]*account
	gone    map[string]*account // pools that were removed
	members map[string][]string
	calls   []*call
	waits   []*wait // in the order of their arrival
	expects []string
	// Of two waits that were refused at one moment, either may be the last refusal from then on.
	refusedAt time.Time
	raced     bool

	ctx     testing.TB
	now     time.Time
	retryAt time.Time // when the last one that was denied may pass
	last    []ratelimit.Request
	begun   time.Time
	step    int
	log     []string
	met     map[string]int // what there was, to see that a life meets it
}

// call is a reservation: one of each limiter, and what it has charged to each account.
type call struct {
	reals    []*ratelimit.Reservation
	req      ratelimit.Request
	most     money.Amount
	admitted time.Time
	settled  bool
	arrived  bool // so that its request is not given back
	// uncounted is a call of a model that has no place under MaxModels, and no pool.
	uncounted bool
	bookings  []*booking
}

// failure is what a life panics with at the first difference.
type failure string

func (l *life) fail(format string, args ...any) {
	panic(failure(fmt.Sprintf("step %d: ", l.step) + fmt.Sprintf(format, args...)))
}

func (l *life) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("%3d %s ", l.step, l.now.UTC().Format("01-02T15:04:05.999999999"))+fmt.Sprintf(format, args...))
}

// outcome is what came of a life.
type outcome struct {
	failure failure
	step    int
	log     []string
	world   string
	met     map[string]int
}

// live runs a life of so many steps in a bubble. Steps for which skips says so are left out.
func live(t *testing.T, seed uint64, kinds []string, steps int, skips func(step int) bool) (out outcome) {
	folders := make([]string, len(kinds))
	for i := range folders {
		folders[i] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1<<40))
		l := &life{world: newWorld(random), seed: seed, random: random, ctx: t, alone: len(kinds) == 1, met: make(map[string]int)}
		defer l.end(&out)
		time.Sleep(l.begins)
		l.begin(kinds, folders)
		for ; l.step < steps; l.step++ {
			if !skips(l.step) {
				l.random = rand.New(rand.NewPCG(seed, uint64(l.step)))
				l.act()
				l.compare()
			}
		}
	})
	return out
}

// begin opens the limiters, and the books.
func (l *life) begin(kinds, folders []string) {
	for i, kind := range kinds {
		h, err := newHouse(kind, folders[i], l.copies())
		if err != nil {
			l.fail("%s: %v", kind, err)
		}
		l.houses = append(l.houses, h)
	}
	// A log begins at instant 1 and a limiter alone at 0, and a rate that is searched for allows a
	// request to be late by some milliseconds, but by no more than to 0.
	time.Sleep(time.Second)
	l.now = time.Now()
	l.begun = l.now
	cfg := l.copies()
	l.quotas, l.program, l.prices = cfg.Quotas, maps.Clone(cfg.Quotas), cfg.Prices
	l.models, l.pools, l.members = make(map[string]*account), make(map[string]*account), make(map[string][]string)
	l.gone = make(map[string]*account)
	for name, pool := range cfg.Pools {
		l.pools[name] = &account{name: name, pool: true, quota: pool.Quota, known: true, span: time.Minute + l.cfg.Margin}
		l.pools[name].follow(l.now)
		l.members[name] = pool.Models
	}
}

// end closes the limiters, and tells what came of the life.
func (l *life) end(out *outcome) {
	if is := recover(); is != nil {
		f, ok := is.(failure)
		if !ok {
			stack := make([]byte, 8000)
			f = failure(fmt.Sprintf("step %d: panic: %v\n%s", l.step, is, stack[:runtime.Stack(stack, false)]))
		}
		out.failure = f
	}
	out.step, out.log, out.world, out.met = l.step, l.log, l.world.String(), l.met
	for _, w := range l.waits {
		w.leave()
	}
	for _, h := range l.houses {
		h.close()
	}
	synctest.Wait()
	runtime.KeepAlive(l.calls) // a reservation that is collected gives its slot back
}

// each asks all limiters the same, and returns what the private one says.
func each[T any](l *life, what string, ask func(h *house, i int) T) (said T) {
	for i, h := range l.houses {
		is := ask(h, i)
		if i == 0 {
			said = is
			continue
		}
		if a, b := render(said), render(is); a != b {
			a, b = differing(a, b)
			l.fail("%s: the limiters differ:\n%s: %s\n%s: %s", what, l.houses[0].kind, a, h.kind, b)
		}
	}
	return said
}

// turn has another limiter of each house be asked.
func (l *life) turn(step int) {
	for _, h := range l.houses {
		h.turn(step)
	}
}

// act makes one step.
func (l *life) act() {
	l.turn(l.step)
	l.now = time.Now()
	switch p := l.random.IntN(100); {
	case p < 24:
		l.reserve(l.drawRequest())
	case p < 30:
		l.reserveAll()
	case p < 34:
		l.reserveAny()
	case p < 40:
		l.decide()
	case p < 41:
		l.waitOut()
	case p < 53:
		l.commit()
	case p < 57:
		l.cancel()
	case p < 62:
		l.arrive()
	case p < 66:
		l.record()
	case p < 82:
		if l.lines && l.random.IntN(2) == 0 {
			l.comeOrGo()
		} else {
			l.sleep()
		}
	case p < 85:
		l.cooldown()
	case p < 88:
		l.observe()
	case p < 91:
		l.setQuota()
	case p < 93:
		l.setPool()
	case p < 95:
		l.reset()
	case p < 96:
		l.setPrice()
	case p < 97:
		if oneIn(l.random, 3) {
			l.load()
		} else {
			l.say()
		}
	case p < 98:
		if l.burst(); oneIn(l.random, 2) {
			l.waitOut()
		}
	default:
		l.settleMany()
	}
	synctest.Wait() // for what is told in the background
	for _, h := range l.houses {
		if h.mirror != nil && h.mirror.Err() != nil {
			l.fail("%s: %v", h.kind, h.mirror.Err())
		}
	}
	l.settled()
}

// blind reports whether the oracle has no opinion on decisions on an account: its quota is paced or
// searched for, or a place under MaxModels decides.
func (l *life) blind(a *account) bool {
	q := a.quota
	return q.Burst != 0 || q.AdaptiveFloorRPM|q.AdaptiveCeilingRPM|q.AdaptiveFloorInFlight|q.AdaptiveCeilingInFlight != 0 ||
		l.crowd && a.unlisted
}

// reserves reports whether a class has a reserve.
func (l *life) reserves() bool { return l.cfg.Classes["ahead"].ReservePercent > 0 }

// sees reports whether the oracle has an opinion on requests.
func (l *life) sees(reqs ...ratelimit.Request) bool {
	if l.isSilent() || l.reserves() {
		return false
	}
	for _, req := range reqs {
		if slices.ContainsFunc(l.accountsOf(req.Model), l.blind) {
			return false
		}
	}
	return true
}

// compare compares what the limiters say of all that there is, now and then, because a look may
// bring in order what was not.
func (l *life) compare() {
	l.compareEvents()
	if oneIn(l.random, 3) {
		return
	}
	l.turn(l.step + 2)
	all := oneIn(l.random, 6)
	is := each(l, "a look", func(h *house, _ int) *sight { return l.hide(h.look(l.names, all)) })
	if l.isSilent() {
		return
	}
	for _, model := range l.names {
		a := l.modelOf(model)
		if l.crowd && a.unlisted {
			continue
		}
		if diff := a.difference(is.Stats[model], l.now); diff != "" {
			l.fail("Stats(%q) %s", model, diff)
		}
	}
	for name, a := range l.pools {
		if diff := a.difference(is.Pools[name], l.now); diff != "" {
			l.fail("PoolStats(%q) %s", name, diff)
		}
	}
	if len(is.Pools) != len(l.pools) {
		l.fail("there are %d pools, the oracle has %d", len(is.Pools), len(l.pools))
	}
	if all {
		l.compareAudit(&is.Audit)
		l.compareHealth(&is.Health)
	}
}

// compareAudit holds the audit against the books.
func (l *life) compareAudit(is *ratelimit.Audit) {
	compare := func(name string, is ratelimit.AuditEntry, a *account) {
		if got, want := render(is), render(a.audit); got != want {
			l.fail("the audit of %q is %s,\nthe oracle's %s", name, got, want)
		}
	}
	for name, a := range l.models {
		if !l.crowd || !a.unlisted {
			compare(name, is.Models[name], a)
		}
	}
	for name, a := range l.pools {
		compare(name, is.Pools[name], a)
	}
}

// compareHealth looks whether warnings are of models that there are.
func (l *life) compareHealth(is *ratelimit.Health) {
	for _, warning := range is.Warnings {
		name := ""
		switch w := warning.(type) {
		case *ratelimit.DenialsError:
			name = w.Model
		case *ratelimit.EstimateError:
			name = w.Model
		}
		l.met["a warning"]++
		if !slices.ContainsFunc(l.names, func(model string) bool { return l.counted(model) == name }) {
			l.fail("Health warns of %q, which is no model: %v", name, warning)
		}
	}
}
