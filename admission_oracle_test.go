// Random traffic against the model of admission.

package ratelimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

const (
	fullModel    = "full"    // every limit
	zonedModel   = "zoned"   // the day of a zone
	openModel    = "open"    // a quota that limits nothing
	strangeModel = "strange" // no quota
	aliasModel   = "alias"   // of fullModel
)

// traffic plays a script of bytes on a limiter and on the oracle, and compares
// all that the limiter says.
type traffic struct {
	session
	margin   time.Duration
	ttl      time.Duration
	books    map[string]*ledger
	names    []string
	bookings []*booking
	now      time.Time
	retryAt  time.Time // what the last denial said
	last     ratelimit.Request
	crowd    bool     // some wait in line
	mostWait int      // MaxQueue
	guests   []*guest // those who wait, in the order of their arrival
	mu       sync.Mutex
	returned []*guest // those whose call has returned, since the last look
	rests    bool     // it sleeps
	tight    bool     // nothing but Reserve charges, and Commit never exceeds
	lazy     bool     // does not look at everything after each step
	log      []string
}

func (s *traffic) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%d %s: ", s.step, s.now.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))+fmt.Sprintf(format, args...))
}

func (s *traffic) fail(format string, args ...any) {
	s.Helper()
	if from := len(s.log) - 40; from > 0 {
		s.log = s.log[from:]
	}
	for _, line := range s.log {
		s.Log(line)
	}
	s.Fatalf("step %d: "+format, append([]any{s.step}, args...)...)
}

func choose[T any](s *traffic, from ...T) T { return pick(&s.session, from...) }

func newTraffic(t *testing.T, script []byte) *traffic {
	s := &traffic{session: session{T: t, script: script}}
	s.crowd = s.next()%2 == 1
	s.margin = choose(s, 0, 250*time.Millisecond)
	s.ttl = choose(s, 0, 0, 0, 90*time.Second)
	s.tight = s.next()%4 == 0
	s.lazy = s.next()%2 == 0
	s.mostWait = choose(s, 0, 0, 3, 1)
	zone := choose(s, "America/New_York", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "UTC")
	time.Sleep(choose(s, 0, 0, 36*time.Hour, 56*24*time.Hour, 91*24*time.Hour, 280*24*time.Hour, 301*24*time.Hour, 85*24*time.Hour))
	quotas := map[string]ratelimit.ModelQuota{
		fullModel:  s.drawQuota(""),
		zonedModel: s.drawQuota(zone),
		openModel:  {},
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas:   quotas,
		Margin:   s.margin,
		HoldTTL:  s.ttl,
		MaxQueue: s.mostWait,
		Aliases:  map[string]string{aliasModel: fullModel},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.rl, s.names = rl, []string{fullModel, zonedModel, openModel, strangeModel}
	s.books = make(map[string]*ledger)
	for _, name := range s.names {
		q, known := quotas[name]
		s.books[name] = &ledger{quota: q, known: known, span: time.Minute + s.margin}
	}
	s.books[aliasModel] = s.books[fullModel]
	return s
}

// drawQuota draws a quota in which any of the limits may bind.
func (s *traffic) drawQuota(zone string) ratelimit.ModelQuota {
	return ratelimit.ModelQuota{
		MaxRPM:      choose(s, 4, 0, 2, 6),
		MaxTPM:      choose(s, 100, 0, 60, 150),
		MaxRPD:      choose(s, 12, 0, 5, 30),
		MaxITPM:     choose(s, 70, 0, 40, 100),
		MaxOTPM:     choose(s, 50, 0, 30, 80),
		MaxTPD:      choose(s, 600, 0, 200, 2000),
		MaxInFlight: choose(s, 3, 0, 0, 2),
		DayZone:     zone,
	}
}

func (s *traffic) drawModel() string {
	return choose(s, fullModel, zonedModel, fullModel, zonedModel, fullModel, openModel, strangeModel, aliasModel)
}

func (s *traffic) drawRequest() ratelimit.Request {
	return ratelimit.Request{
		Model:        s.drawModel(),
		PromptTokens: choose(s, 10, 0, 1, 25, 40, 33, 70, 101, 5, 17, 20, -1),
		OutputTokens: choose(s, 10, 0, 1, 25, 30, 5, 50, 7, 20, 0, 81, 15),
	}
}

func (s *traffic) play() {
	s.now = time.Now()
	for ; len(s.script) > 0; s.step++ {
		s.now = time.Now()
		s.act()
		s.sync()
		if !s.lazy || s.next()%8 == 0 {
			s.compare()
		}
	}
	s.closeDoors()
	s.compare()
	if s.tight {
		s.checkHistory()
	}
}

func (s *traffic) compare() {
	for _, name := range s.names {
		if diff := s.books[name].difference(s.rl.Stats(name), s.now); diff != "" {
			s.fail("%s: %s", name, diff)
		}
	}
}

func (s *traffic) act() {
	if s.crowd && s.next()%3 == 0 {
		s.comeOrGo()
		return
	}
	switch s.next() % 20 {
	case 0, 1, 2, 3, 4:
		s.reserve(s.drawRequest())
	case 5, 6:
		s.commit()
	case 7:
		if b := s.drawBooking(); b != nil {
			s.note("cancel %s of %v", b.model, b.admitted)
			b.real.Cancel()
			b.cancel(s.now)
		}
	case 8, 9:
		s.arrive()
	case 10:
		if req := s.drawRequest(); !s.tight {
			s.note("record %+v", req)
			s.rl.RecordUsage(req.Model, req.PromptTokens, req.OutputTokens)
			s.books[req.Model].charge(s.now, max(req.PromptTokens, 0), max(req.OutputTokens, 0))
		}
	case 11, 12:
		s.decide(s.drawRequest())
	case 13:
		s.reserveAll()
	case 14, 15, 16:
		s.sleep()
	case 17:
		s.waitOut()
	case 18:
		switch s.next() % 4 {
		case 0:
			s.cooldown()
		case 1:
			if model := choose(s, s.drawModel(), ""); !s.tight {
				s.reset(model)
			}
		default:
			s.changeQuota()
		}
	case 19:
		s.commit()
	}
}

func (s *traffic) reset(model string) {
	s.note("reset %q", model)
	s.rl.Reset(model)
	for _, name := range s.names {
		if model == "" || s.books[model] == s.books[name] {
			s.books[name].reset()
		}
	}
}

func (s *traffic) changeQuota() {
	if s.tight {
		return
	}
	name := choose(s, fullModel, zonedModel, openModel)
	l := s.books[name]
	q := s.drawQuota(l.quota.DayZone)
	switch s.next() % 8 {
	case 0:
		q = ratelimit.ModelQuota{DayZone: l.quota.DayZone}
	case 1:
		q.MaxITPM = -1
	case 2:
		q.MaxInFlight = -3
	}
	s.note("quota %s %+v", name, q)
	s.rl.SetQuota(name, q)
	l.quota = q
}

func (s *traffic) cooldown() {
	model := s.drawModel()
	until := s.now.Add(choose(s, time.Second, 0, -time.Minute, 30*time.Second, time.Minute, 90*time.Second+1, time.Hour))
	s.note("cooldown %s %v", model, until)
	s.rl.Cooldown(model, until)
	s.books[model].coolUntil(s.now, until)
}

// drawBooking draws one of all, and rather one of the last.
func (s *traffic) drawBooking() *booking {
	n := len(s.bookings)
	if n == 0 {
		return nil
	}
	if b := s.next(); b%8 != 0 {
		return s.bookings[n-1-b/8%min(n, 8)]
	}
	return s.bookings[(s.next()<<8|s.next())%n]
}

func (s *traffic) commit() {
	b := s.drawBooking()
	if b == nil {
		return
	}
	input, output := b.input, b.output
	for _, n := range []*int{&input, &output} {
		*n += choose(s, 0, 0, -*n, -*n/2, -1, 1, 10, 60, -*n-1)
	}
	if s.tight {
		input, output = min(input, b.input), min(output, b.output)
	}
	s.note("commit %s of %v: %d, %d to %d, %d", b.model, b.admitted, b.input, b.output, input, output)
	b.real.Commit(input, output)
	b.commit(s.now, input, output)
}

func (s *traffic) arrive() {
	b := s.drawBooking()
	if b == nil || s.tight {
		return
	}
	age := s.now.Sub(b.at)
	at := choose(s, s.now, s.now.Add(-1), s.now.Add(time.Second), s.now.Add(-time.Second), b.at, b.at.Add(-1),
		b.at.Add(age/2), b.admitted.Add(-time.Hour), s.now.Add(-30*time.Second), b.at.Add(b.book.span), s.now.Add(-b.book.span), s.now.Add(-b.book.span-1))
	if l := b.book; l.day.over(s.now) || l.quota.DayZone == "" && !b.inDay(s.now) {
		at = s.now // which day else would begin when is the matter of admission_edges_test.go
	}
	s.note("arrived %s of %v: %v", b.model, b.admitted, at)
	b.real.Arrived(at)
	b.arrived(s.now, at)
	if got := b.real.ReservedAt(); !got.Equal(b.admitted) {
		s.fail("ReservedAt = %v, admitted %v", got, b.admitted)
	}
	if got := b.real.Model(); got != b.model {
		s.fail("Model = %q, want %q", got, b.model)
	}
}

// check holds a decision on one model against the verdict.
func (s *traffic) check(d ratelimit.Decision, req ratelimit.Request, a demand) verdict {
	l := s.books[req.Model]
	v := l.judge(s.T, s.now, a)
	if l.waiting > 0 && !v.never {
		v.allowed, v.code = false, ratelimit.DecisionQueued
	}
	if d.Allowed != v.allowed || d.Code != v.code || d.Never != v.never || d.RetryAfter != v.retry ||
		d.Model != req.Model || d.Reason == "" {
		s.fail("%+v:\n%+v, oracle\n%+v\nof %+v", req, d, v, l.quota)
	}
	if diff := l.difference(d.Stats, s.now); diff != "" {
		s.fail("%+v: %s", req, diff)
	}
	if !v.allowed {
		s.denied(req, v)
	}
	return v
}

func (s *traffic) denied(req ratelimit.Request, v verdict) {
	if s.last, s.retryAt = req, (time.Time{}); v.retry > 0 && req.PromptTokens < 1000 {
		s.retryAt = s.now.Add(v.retry)
	}
}

func (s *traffic) reserve(req ratelimit.Request) bool {
	r, d := s.rl.Reserve(req.Model, req.PromptTokens, req.OutputTokens)
	s.note("reserve %+v: %s %v", req, d.Code, d.RetryAfter)
	v := s.check(d, req, demand{1, req.PromptTokens, req.OutputTokens})
	if (r != nil) != v.allowed {
		s.fail("Reserve returned %v with %+v", r, d)
	}
	if v.allowed {
		s.bookings = append(s.bookings, s.books[req.Model].book(s.now, req.Model, r, req.PromptTokens, req.OutputTokens))
	} else if r.Cancel(); r.Model() != "" || !r.ReservedAt().IsZero() {
		s.fail("a nil Reservation says something")
	}
	return v.allowed
}

func (s *traffic) decide(req ratelimit.Request) {
	switch s.next() % 4 {
	case 0:
		s.check(s.rl.DecideRequest(req), req, demand{1, req.PromptTokens, req.OutputTokens})
		return
	case 1:
		req.PromptTokens = math.MaxInt
	}
	d := s.rl.Decide(req.Model, req.PromptTokens)
	s.note("decide %+v: %s %v", req, d.Code, d.RetryAfter)
	v := s.check(d, ratelimit.Request{Model: req.Model, PromptTokens: req.PromptTokens}, demand{1, req.PromptTokens, 0})
	if can := s.rl.CanSend(req.Model, req.PromptTokens); can != v.allowed {
		s.fail("CanSend = %v, Decide = %+v", can, d)
	}
}

func (s *traffic) reserveAll() {
	reqs := make([]ratelimit.Request, s.next()%5)
	for i := range reqs {
		reqs[i] = s.drawRequest()
		reqs[i].PromptTokens /= 2
	}
	all, who, called := s.judgeAll(reqs, s.now)
	if !all.never {
		for _, l := range s.booksOf(reqs) {
			if l.waiting > 0 {
				all.allowed, all.code, who = false, ratelimit.DecisionQueued, l
				break
			}
		}
	}

	rs, d := s.rl.ReserveAll(reqs...)
	s.note("reserve all %+v: %s %v", reqs, d.Code, d.RetryAfter)
	if d.Allowed != all.allowed || d.Code != all.code || d.Never != all.never || d.Reason == "" {
		s.fail("%+v:\n%+v, oracle\n%+v", reqs, d, all)
	}
	if d.RetryAfter != all.retry {
		s.fail("%+v:\n%+v, oracle\n%+v", reqs, d, all)
	}
	if !all.allowed {
		if rs != nil {
			s.fail("denied, and yet %d reservations", len(rs))
		}
		if diff := who.difference(d.Stats, s.now); diff != "" || d.Model != called[who] {
			s.fail("%q denied, oracle %q: %s", d.Model, called[who], diff)
		}
		return
	}
	if len(rs) != len(reqs) {
		s.fail("%d reservations for %d requests", len(rs), len(reqs))
	}
	for i, req := range reqs {
		s.bookings = append(s.bookings, s.books[req.Model].book(s.now, req.Model, rs[i], req.PromptTokens, req.OutputTokens))
	}
	if s.next()%8 == 0 {
		s.note("cancel all")
		rs.Cancel()
		for _, b := range s.bookings[len(s.bookings)-len(rs):] {
			b.cancel(s.now)
		}
	}
}

// booksOf returns the ledgers of requests, each once.
func (s *traffic) booksOf(reqs []ratelimit.Request) (order []*ledger) {
	for _, req := range reqs {
		if l := s.books[req.Model]; !slices.Contains(order, l) {
			order = append(order, l)
		}
	}
	return order
}

// judgeAll is the verdict on requests that are to pass together, who denies, and
// how the first request calls each ledger. As long as one of the models waits for a
// slot, no time says when they pass.
func (s *traffic) judgeAll(reqs []ratelimit.Request, now time.Time) (all verdict, who *ledger, called map[*ledger]string) {
	var order []*ledger
	sums := make(map[*ledger]*demand)
	called = make(map[*ledger]string)
	for _, req := range reqs {
		l := s.books[req.Model]
		if sums[l] == nil {
			order, sums[l], called[l] = append(order, l), new(demand), req.Model
		}
		a := sums[l]
		a.requests++
		if a.input < 0 || min(req.PromptTokens, req.OutputTokens) < 0 {
			a.input = -1
		} else {
			a.input, a.output = addCapped(a.input, req.PromptTokens), addCapped(a.output, req.OutputTokens)
		}
	}
	all = verdict{allowed: true, code: ratelimit.DecisionAllowed}
	slots := false
	wait := time.Duration(0)
	for _, l := range order {
		v := l.judge(s.T, now, *sums[l])
		wait = max(wait, v.wait)
		slots = slots || v.code == ratelimit.DecisionInFlightLimit
		retry := max(all.retry, v.retry)
		switch {
		case all.never:
		case v.never:
			all, who, retry = v, l, 0
		case all.allowed && !v.allowed:
			all, who = v, l
		case len(order) == 1:
			all.code = v.code
		}
		if !all.never {
			all.retry = retry
		}
	}
	if slots {
		all.retry = 0
	}
	all.wait = wait
	return all, who, called
}

func (s *traffic) sleep() {
	span := time.Minute + s.margin
	_, midnight := dateOf(s.now, s.books[zonedModel].quota.DayZone)
	toMidnight, toRetry, toDay := midnight.Sub(s.now), s.retryAt.Sub(s.now), 24*time.Hour
	if toRetry < 1 {
		toRetry = 1
	}
	if day := s.books[fullModel].day; !day.over(s.now) {
		toDay = day.end.Sub(s.now)
	}
	d := choose(s, 1, toRetry, toRetry-1, time.Second, 10*time.Second, 25*time.Second, 40*time.Second, time.Minute, time.Minute+1,
		span, span+1, toRetry, time.Hour, toMidnight, toMidnight-1, toDay, toDay-1, 7*time.Second, 20*time.Second, 5*time.Second)
	s.note("sleep %v", d)
	s.rest(d)
}

// waitOut sleeps as long as the last denial said, and asks again, also a
// nanosecond before.
func (s *traffic) waitOut() {
	if !s.retryAt.After(s.now) {
		return
	}
	req, at := s.last, s.retryAt
	for _, early := range []time.Duration{1, 0} {
		s.rest(at.Add(-early).Sub(s.now))
		s.reserve(req)
	}
}

// checkHistory looks at what the provider saw: no minute and no day has more than
// the quota.
func (s *traffic) checkHistory() {
	for _, name := range s.names {
		l := s.books[name]
		var seen []*booking
		for _, b := range s.bookings {
			if b.book == l && !b.cancelled {
				seen = append(seen, b)
			}
		}
		over := func(what string, used, limit int, b *booking) {
			if limit > 0 && used > limit {
				s.fail("%s: %d %s up to %v, the quota is %d", name, used, what, b.admitted, limit)
			}
		}
		oldest := 0
		var n demand
		days := make(map[time.Time]*dayBook)
		var day *dayBook
		for _, b := range seen {
			n.requests++
			n.input += b.usedInput
			n.output += b.usedOutput
			for old := seen[oldest]; b.admitted.Sub(old.admitted) > time.Minute; old = seen[oldest] {
				n.requests--
				n.input -= old.usedInput
				n.output -= old.usedOutput
				oldest++
			}
			over("requests", n.requests, l.quota.MaxRPM, b)
			over("input tokens", n.input, l.quota.MaxITPM, b)
			over("output tokens", n.output, l.quota.MaxOTPM, b)
			over("tokens", n.tokens(), l.quota.MaxTPM, b)
			if l.quota.DayZone != "" {
				begin, _ := dateOf(b.admitted, l.quota.DayZone)
				if day = days[begin]; day == nil {
					day = &dayBook{}
					days[begin] = day
				}
			} else if day == nil || b.admitted.Sub(day.begin) >= 24*time.Hour {
				day = &dayBook{begin: b.admitted}
			}
			day.requests++
			day.tokens += b.usedInput + b.usedOutput
			if l.quota.DayZone != "" {
				over("requests of the day", day.requests, l.quota.MaxRPD, b)
				over("tokens of the day", day.tokens, l.quota.MaxTPD, b)
			}
		}
	}
}

func playTraffic(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) { newTraffic(t, script).play() })
}

func randomScript(seed, stream uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, stream))
	script := make([]byte, n)
	for i := range script {
		script[i] = byte(random.Uint32())
	}
	return script
}

func TestAdmissionAgreesWithOracle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(times(100, 25, 1000)) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { playTraffic(t, append([]byte{0}, randomScript(seed, 11, 2000)...)) }) {
			return
		}
	}
}

func FuzzAdmission(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(randomScript(seed, 12, 400))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) <= 3000 {
			playTraffic(t, script)
		}
	})
}
