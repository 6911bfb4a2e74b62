// Weighted fair queueing with all of it, as docs/classes.md has it: lines of models and of pools,
// classes and flows in them, budgets. Nothing here knows how the limiter does it: each question is
// answered by looking at everyone who waits and at every charge.

package ratelimit_test

import (
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

const (
	wfqSpan    = time.Minute
	wfqOfOther = 9 // services of classes ahead between two of the others
	// wfqWhole is the charge of a whole limit to a class of weight 1. All limits and weights of the
	// tests divide it, so that no share is rounded.
	wfqWhole = 336 * 60 * 1024
)

// wfqCall is a call: it waits, is open or was served.
type wfqCall struct {
	n      int // by arrival
	reqs   []ratelimit.Request
	class  string
	flow   string
	stands map[*wfqBook]*wfqPlace // where it waits
	cancel func()

	// What became of it:
	returned bool
	at       time.Time
	err      error
	real     ratelimit.Reservations
	charged  map[string]uint32
}

// wfqPlace is the place of a call in a line.
type wfqPlace struct {
	call  *wfqCall
	awake bool // it may be the next in the line
	was   bool // it was so before somebody was looked for who may be served
}

// wfqClass is a class in a line, since the line was empty.
type wfqClass struct {
	ratelimit.Class
	name   string
	begin  int      // the tag at which its next service begins
	circle []string // the flows that wait, in the order in which they take turns
}

// wfqLine is a line: calls in the order of their arrival.
type wfqLine struct {
	places  []*wfqPlace
	classes map[string]*wfqClass
	virtual map[bool]int // of the classes ahead, and of the others
	passed  []*wfqPlace  // in the line of a pool: who is ready and kept by nobody in it, in turn
	over    int          // services ahead while one of the others was awake, since one of those
}

// wfqCharge is what a request has charged to a book.
type wfqCharge struct {
	at      time.Time
	tokens  int
	call    *wfqCall
	request int
}

// wfqLimit is a limit that can be scarce in a line.
type wfqLimit int

const (
	wfqRequests wfqLimit = iota
	wfqTokens
	wfqSlots
	wfqMoney
)

// wfqBook is the limits and the usage of a model or of a pool.
type wfqBook struct {
	name    string
	pool    bool
	quota   ratelimit.ModelQuota
	charges []wfqCharge
	open    int
	day     int // since 1970
	spent   int // of it
	scarce  wfqLimit
	line    wfqLine
}

// wfqDemand is what a call asks of a book.
type wfqDemand struct{ calls, tokens int }

// wfqVerdict is what a book says to a demand.
type wfqVerdict struct {
	denied, never bool
	by            wfqLimit      // the first that denies
	event         bool          // no time says when it passes
	wait          time.Duration // until the limits of time let it pass
}

func wfqDay(t time.Time) int { return int(t.Unix() / 86400) }

// turn begins a new day, and forgets what is over.
func (b *wfqBook) turn(now time.Time) {
	over := 0
	for over < len(b.charges) && now.Sub(b.charges[over].at) > wfqSpan {
		over++
	}
	b.charges = b.charges[over:]
	if day := wfqDay(now); day != b.day {
		b.day, b.spent = day, 0
	}
}

// deny notes that a limit denies.
func (v *wfqVerdict) deny(by wfqLimit, never bool) {
	if !v.denied {
		v.by = by
	}
	v.denied, v.never = true, v.never || never
}

// judge says whether a demand passes now.
func (b *wfqBook) judge(now time.Time, d wfqDemand) (v wfqVerdict) {
	b.turn(now)
	q := b.quota
	if q.MaxInFlight > 0 && b.open+d.calls > q.MaxInFlight {
		v.deny(wfqSlots, d.calls > q.MaxInFlight)
		v.event = true
	}
	if most := int(q.MaxSpendPerDay); most > 0 && b.spent+d.tokens > most {
		v.deny(wfqMoney, d.tokens > most)
		v.wait = time.Unix(int64(b.day+1)*86400, 0).Sub(now)
	}
	calls, tokens := len(b.charges), b.tokens()
	tooMany := func() bool { return q.MaxRPM > 0 && calls+d.calls > q.MaxRPM }
	tooMuch := func() bool { return q.MaxTPM > 0 && tokens+d.tokens > q.MaxTPM }
	if tooMany() {
		v.deny(wfqRequests, d.calls > q.MaxRPM)
	}
	if tooMuch() {
		v.deny(wfqTokens, d.tokens > q.MaxTPM)
	}
	for _, c := range b.charges {
		if !tooMany() && !tooMuch() {
			break
		}
		calls, tokens = calls-1, tokens-c.tokens
		v.wait = max(v.wait, c.at.Add(wfqSpan+1).Sub(now)) // a charge counts while it is a minute old
	}
	return v
}

func (b *wfqBook) tokens() (tokens int) {
	for _, c := range b.charges {
		tokens += c.tokens
	}
	return tokens
}

// share returns the part of the scarce limit that a demand is: of the one that denied last; before
// any has, of the requests.
func (b *wfqBook) share(d wfqDemand) int {
	limit, amount := b.quota.MaxRPM, d.calls
	switch q := b.quota; {
	case b.scarce == wfqTokens:
		limit, amount = q.MaxTPM, d.tokens
	case b.scarce == wfqSlots, limit == 0 && q.MaxInFlight > 0:
		limit = q.MaxInFlight
	case limit == 0:
		limit = 1024
	}
	return min(amount, limit) * (wfqWhole / limit)
}

// charge charges a request, and its tokens as what it can cost.
func (b *wfqBook) charge(now time.Time, c *wfqCall, request, tokens int) {
	b.turn(now)
	b.charges = append(b.charges, wfqCharge{now, tokens, c, request})
	b.open++
	b.spent += tokens
}

// settle ends a request that was charged at a time: at what it used, or as if it had never been
// (less than nothing).
func (b *wfqBook) settle(now time.Time, c *wfqCall, request, used int) {
	b.turn(now)
	b.open--
	if b.day == wfqDay(c.at) {
		b.spent += max(used, 0) - c.reqs[request].PromptTokens
	}
	i := slices.IndexFunc(b.charges, func(o wfqCharge) bool { return o.call == c && o.request == request })
	switch {
	case i < 0:
	case used < 0:
		b.charges = slices.Delete(b.charges, i, i+1)
	default:
		b.charges[i].tokens = used
	}
}

// find returns a class in the line, which is there from now on.
func (l *wfqLine) find(name string, c ratelimit.Class) *wfqClass {
	k := l.classes[name]
	if k == nil {
		if l.classes == nil {
			l.classes, l.virtual = make(map[string]*wfqClass), make(map[bool]int)
		}
		k = &wfqClass{Class: c, name: name}
		l.classes[name] = k
	}
	return k
}

// first returns who is next of a class; nil for nobody.
func (l *wfqLine) first(class string) (first *wfqPlace) {
	if l.classes[class] == nil {
		return nil
	}
	for _, flow := range l.classes[class].circle {
		for _, p := range l.places { // by arrival
			if p.awake && p.call.class == class && p.call.flow == flow {
				return p
			}
		}
	}
	return nil
}

// hasOthers reports whether anybody waits who is of no class ahead; awake, or at all.
func (l *wfqLine) hasOthers(awake bool) bool {
	return slices.ContainsFunc(l.places, func(p *wfqPlace) bool {
		return !l.classes[p.call.class].Ahead && (p.awake || !awake)
	})
}

// heads returns the next one of each class, in the order in which they are to be served: classes
// ahead first, but for every tenth service; then the class whose service begins first; then the one
// whose call came first.
func (l *wfqLine) heads() (heads []*wfqPlace) {
	for name := range l.classes {
		if p := l.first(name); p != nil {
			heads = append(heads, p)
		}
	}
	slices.SortFunc(heads, func(p, q *wfqPlace) int {
		a, b := l.classes[p.call.class], l.classes[q.call.class]
		switch {
		case a.Ahead != b.Ahead:
			if a.Ahead == (l.over < wfqOfOther) {
				return -1
			}
			return 1
		case a.begin != b.begin:
			return a.begin - b.begin
		}
		return p.call.n - q.call.n
	})
	return heads
}

// leads reports whether a call that comes would be the next: nobody of its class waits, and its
// class is ahead of the next, or got less than its share.
func (l *wfqLine) leads(name string, c ratelimit.Class) bool {
	heads := l.heads()
	if len(heads) == 0 {
		return true
	}
	next := l.classes[heads[0].call.class]
	begin := 0
	if k := l.classes[name]; k != nil {
		if l.first(name) != nil {
			return false
		}
		begin = k.begin
	}
	if c.Ahead != next.Ahead {
		return c.Ahead == (l.over < wfqOfOther)
	}
	return max(begin, l.virtual[c.Ahead]) < next.begin
}

// enter puts a call at the end of its flow, and a flow that comes behind those that take turns.
func (l *wfqLine) enter(c *wfqCall, k *wfqClass) *wfqPlace {
	p := &wfqPlace{call: c}
	if !slices.Contains(k.circle, c.flow) {
		k.circle = append(k.circle, c.flow)
	}
	l.places = append(l.places, p)
	return p
}

// leave takes a flow out of those that take turns.
func (k *wfqClass) leave(flow string) {
	k.circle = slices.DeleteFunc(k.circle, func(other string) bool { return other == flow })
}

// wake lets a call be served. A class that was away begins where the others are.
func (l *wfqLine) wake(p *wfqPlace) {
	if k := l.classes[p.call.class]; l.first(k.name) == nil {
		k.begin = max(k.begin, l.virtual[k.Ahead])
	}
	p.awake = true
}

// leave takes a call out of the line. Its flow keeps its turn while others of it wait.
func (l *wfqLine) leave(p *wfqPlace) {
	l.places = slices.DeleteFunc(l.places, func(other *wfqPlace) bool { return other == p })
	if !slices.ContainsFunc(l.places, func(o *wfqPlace) bool { return o.call.class == p.call.class && o.call.flow == p.call.flow }) {
		l.classes[p.call.class].leave(p.call.flow)
	}
	if !l.hasOthers(false) {
		l.over = 0
	}
	if len(l.places) == 0 {
		*l = wfqLine{}
	}
}

// charge counts a service of a class, of a part of the limit.
func (l *wfqLine) charge(k *wfqClass, share int) {
	l.virtual[k.Ahead] = max(l.virtual[k.Ahead], k.begin)
	k.begin += share / max(k.Weight, 1)
	switch {
	case !k.Ahead:
		l.over = 0
	case l.hasOthers(true):
		l.over++
	}
}

// demands returns what a call asks of each book.
func (s *wfqLife) demands(c *wfqCall) map[*wfqBook]wfqDemand {
	ds := make(map[*wfqBook]wfqDemand)
	for _, req := range c.reqs {
		for _, b := range s.booksOf(req.Model) {
			d := ds[b]
			ds[b] = wfqDemand{d.calls + 1, d.tokens + req.PromptTokens}
		}
	}
	return ds
}

func (s *wfqLife) booksOf(model string) []*wfqBook {
	in := []*wfqBook{s.models[model]}
	for name, pool := range s.cfg.Pools {
		if pool.Models[0] == "*" || slices.Contains(pool.Models, model) {
			in = append(in, s.pools[name])
		}
	}
	return in
}

// judge says whether a call passes all of its books, and those of its models. What denies one that
// stands in line is scarce there.
func (s *wfqLife) judge(c *wfqCall) (all, models wfqVerdict) {
	for b, d := range s.demands(c) {
		v := b.judge(s.now, d)
		if v.denied && v.by != wfqMoney && c.stands != nil {
			b.scarce = v.by
		}
		all = all.and(v)
		if !b.pool {
			models = models.and(v)
		}
	}
	return all, models
}

func (v wfqVerdict) and(o wfqVerdict) wfqVerdict {
	return wfqVerdict{denied: v.denied || o.denied, never: v.never || o.never, event: v.event || o.event, wait: max(v.wait, o.wait)}
}

// keepsNobody reports whether a head waits for longer than a minute, so that other classes pass it.
func (v wfqVerdict) keepsNobody() bool { return v.denied && !v.event && v.wait > wfqSpan+1 }

// isNext reports whether it is the turn of a call in the lines of all its models, but for one in
// which it is known to be.
func (s *wfqLife) isNext(c *wfqCall, but *wfqBook) bool {
	for b := range c.stands {
		if !b.pool && b != but && b.first() != c {
			return false
		}
	}
	return true
}

// first returns the call whose turn it is in the line of a model: the head; but of calls for
// several models that would block each other, the one that came first.
func (b *wfqBook) first() *wfqCall {
	first := b.line.heads()[0].call
	if _, behind := first.ahead(); behind == 0 {
		return first
	}
	for _, p := range b.line.places {
		if of, _ := p.call.ahead(); of > 0 && len(p.call.reqs) > 1 && p.call.n < first.n {
			first = p.call
		}
	}
	return first
}

// ahead counts the lines of its models whose head a call is, and the others.
func (c *wfqCall) ahead() (of, behind int) {
	for b := range c.stands {
		switch {
		case b.pool:
		case b.line.heads()[0].call == c:
			of++
		default:
			behind++
		}
	}
	return of, behind
}

// ready returns the calls whose turn it is in the lines of their models, which have room for them.
func (s *wfqLife) ready() (ready []*wfqCall) {
	for _, b := range s.books {
		if b.pool {
			continue
		}
		for _, p := range b.line.heads() {
			c := p.call
			if c == b.line.heads()[0].call {
				c = b.first()
			}
			if !s.isNext(c, b) {
				break
			}
			all, models := s.judge(c)
			if !models.denied && !slices.Contains(ready, c) {
				ready = append(ready, c)
			}
			if !all.keepsNobody() {
				break
			}
		}
	}
	return ready
}

// next returns the calls that may be served now: those that are ready, and before which nobody in
// the lines of their pools is kept by the pool.
func (s *wfqLife) next() (next []*wfqCall) {
	ready := s.ready()
	next = slices.Clone(ready)
	for _, b := range s.pools {
		b.line.passed = nil
		for _, p := range b.line.places {
			p.was, p.awake = p.awake, false
		}
		for _, c := range ready {
			if p := c.stands[b]; p != nil {
				b.line.wake(p)
			}
		}
		for heads := b.line.heads(); len(heads) > 0; heads = b.line.heads() {
			h := heads[0]
			if b.judge(s.now, s.demands(h.call)[b]).denied {
				break // it waits for the pool, and those behind it
			}
			h.awake = false
			b.line.passed = append(b.line.passed, h)
		}
		next = slices.DeleteFunc(next, func(c *wfqCall) bool { return c.stands[b] != nil && c.stands[b].awake })
	}
	return next
}

// passes reports whether a call that comes is served at once.
func (s *wfqLife) passes(c *wfqCall, v wfqVerdict) bool {
	for b := range s.demands(c) {
		if !b.line.leads(c.class, s.cfg.Classes[c.class]) && !s.keepNobody(b, c.class) {
			return false
		}
	}
	return !v.denied
}

// keepNobody reports whether nobody of a class waits in a line, and those who are next in it wait
// for so long that others pass them.
func (s *wfqLife) keepNobody(b *wfqBook, class string) bool {
	for _, p := range b.line.heads() {
		if p.call.class == class || !s.isNext(p.call, b) {
			return false
		}
		if all, _ := s.judge(p.call); !all.keepsNobody() {
			return false
		}
	}
	return true
}

// isFull reports whether as many of the class of a call wait for a model of it as may.
func (s *wfqLife) isFull(c *wfqCall) bool {
	most := s.cfg.Classes[c.class].MaxQueue
	for b := range s.demands(c) {
		n := 0
		for _, p := range b.line.places {
			if p.call.class == c.class {
				n++
			}
		}
		if !b.pool && most > 0 && n >= most {
			return true
		}
	}
	return false
}

// isFirstOf reports whether a call was charged before all others, as far as they are charged to the
// same.
func (c *wfqCall) isFirstOf(served []*wfqCall) bool {
	for _, other := range served {
		for name, place := range c.charged {
			if before, both := other.charged[name]; both && before < place {
				return false
			}
		}
	}
	return true
}
