// Who wins among quotas: random lives of a limiter and its file against a small model of the table.

package ratelimit_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/persist"
)

// saysOf is what is said of a model: nil for nothing.
type saysOf struct{ program, account, file, profile *ratelimit.ModelQuota }

// modelOf is a model as the table of the guide has it: what was said in this process, what the file
// says, and what was learned.
type modelOf struct {
	now, file saysOf
	learned   ratelimit.ModelQuota
}

// base returns the first row of the table that says something, and the limits that reports do not
// exceed.
func (m *modelOf) base() (q *ratelimit.ModelQuota, bounds ratelimit.ModelQuota) {
	fill := func(program, account *ratelimit.ModelQuota) *ratelimit.ModelQuota {
		if program == nil || account == nil || *program == (ratelimit.ModelQuota{}) {
			if program == nil {
				return account
			}
			return program
		}
		filled := *program
		if filled.MaxRPM == 0 {
			filled.MaxRPM = account.MaxRPM
		}
		if filled.MaxTPM == 0 {
			filled.MaxTPM = account.MaxTPM
		}
		return &filled
	}
	if m.now.program != nil || m.now.account != nil {
		bounds = *fill(m.now.program, m.now.account)
	}
	switch {
	case m.now.program != nil && m.now.account == nil:
		return fill(m.now.program, m.file.account), bounds
	case m.now.program != nil || m.now.account != nil:
		return &bounds, bounds
	}
	for _, q := range []*ratelimit.ModelQuota{fill(m.file.program, m.file.account), m.file.file, m.now.profile, m.file.profile} {
		if q != nil {
			return q, bounds
		}
	}
	return nil, bounds
}

// holds returns the quota that holds; nil for none.
func (m *modelOf) holds() *ratelimit.ModelQuota {
	base, bounds := m.base()
	if base == nil && m.learned == (ratelimit.ModelQuota{}) {
		return nil
	}
	var q ratelimit.ModelQuota
	if base != nil {
		q = *base
	}
	correct := func(limit *int, learned, bound int) {
		if learned > 0 && bound > 0 {
			learned = min(learned, bound)
		}
		if learned > 0 {
			*limit = learned
		}
	}
	correct(&q.MaxRPM, m.learned.MaxRPM, bounds.MaxRPM)
	correct(&q.MaxTPM, m.learned.MaxTPM, bounds.MaxTPM)
	return &q
}

// observe is a report of limits, zero for none.
func (m *modelOf) observe(report ratelimit.ModelQuota) {
	var was, base ratelimit.ModelQuota
	if q := m.holds(); q != nil {
		was = *q
	}
	q, bounds := m.base()
	if q != nil {
		base = *q
	}
	learn := func(learned *int, report, was, base, bound int) {
		if bound > 0 {
			report = min(report, bound)
		}
		switch report {
		case 0, was:
		case base:
			*learned = 0
		default:
			*learned = report
		}
	}
	learn(&m.learned.MaxRPM, report.MaxRPM, was.MaxRPM, base.MaxRPM, bounds.MaxRPM)
	learn(&m.learned.MaxTPM, report.MaxTPM, was.MaxTPM, base.MaxTPM, bounds.MaxTPM)
}

// saved returns the model as a file has it.
func (m *modelOf) saved() (f modelOf) {
	f.file = m.file
	if m.now.program != nil || m.now.account != nil {
		f.file.program = m.now.program
	}
	if m.now.account != nil {
		f.file.account = m.now.account
	}
	if m.now.profile != nil {
		f.file.profile = m.now.profile
	}
	if f.file.program != nil {
		f.file.file = nil
	}
	q := m.holds()
	base, _ := f.base()
	if base == nil {
		base = &ratelimit.ModelQuota{}
	}
	if q.MaxRPM != base.MaxRPM {
		f.learned.MaxRPM = q.MaxRPM
	}
	if q.MaxTPM != base.MaxTPM {
		f.learned.MaxTPM = q.MaxTPM
	}
	// A file does not tell a quota that the program alone has said from one without an origin.
	if f.file.program != nil && f.file.account == nil && f.file.profile == nil && f.learned == (ratelimit.ModelQuota{}) {
		f.file.file, f.file.program = f.file.program, nil
	}
	return f
}

// life is a limiter, and what the model says of it.
type life struct {
	t       *testing.T
	random  *rand.Rand
	cfg     ratelimit.Config
	rl      *ratelimit.RateLimiter
	models  map[string]*modelOf
	file    map[string]modelOf
	removed map[string]takenBack
	resaid  bool
	script  []string
}

var lifeModels = []string{"gpt-4o", "gpt-4o-mini", "a", "b"}

func (l *life) open() {
	l.cfg.LearnQuotas = l.random.IntN(3) > 0
	l.rl = newLimiterWith(l.t, l.cfg)
	l.models, l.removed, l.resaid = make(map[string]*modelOf), make(map[string]takenBack), false
	for _, name := range lifeModels {
		l.models[name] = new(modelOf)
	}
	if l.random.IntN(2) == 0 {
		l.addProvider()
	}
	l.load()
}

func (l *life) say(format string, args ...any) {
	l.script = append(l.script, fmt.Sprintf(format, args...))
}

func (l *life) quota() ratelimit.ModelQuota {
	return ratelimit.ModelQuota{MaxRPM: l.random.IntN(4), MaxTPM: l.random.IntN(4)}
}

func (l *life) addProvider() {
	l.say("AddProvider")
	l.rl.AddProvider(ratelimit.ProviderOpenAI)
	for name, q := range ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models {
		if m := l.models[name]; m != nil {
			m.now.program, m.now.profile, m.learned = nil, &q, ratelimit.ModelQuota{}
			m.file = saysOf{account: m.file.account}
		}
	}
}

func (l *life) load() {
	l.say("Load, learns %t", l.cfg.LearnQuotas)
	if err := l.rl.Load(); err != nil {
		l.t.Fatal(err)
	}
	for name, f := range l.file {
		m := l.models[name]
		m.file = f.file
		if was, removed := l.removed[name]; removed {
			m.file.forget(was)
		}
		if l.resaid {
			m.file.account = nil
		}
		if m.now.program == nil && m.now.account == nil {
			if m.learned = f.learned; !l.cfg.LearnQuotas {
				m.learned = ratelimit.ModelQuota{}
			}
		}
	}
}

// takenBack is what RemoveQuota has taken back of a model: what the program said, and what a file
// had that an earlier run may have said.
type takenBack struct{ program, file ratelimit.ModelQuota }

func (s *saysOf) forget(was takenBack) {
	s.program = nil
	if s.file != nil && (*s.file == was.program || *s.file == was.file) {
		s.file = nil
	}
}

func (l *life) remove(name string) {
	l.say("RemoveQuota %s", name)
	l.rl.RemoveQuota(name)
	m := l.models[name]
	program, file := cmp.Or(m.now.program, m.file.program), m.file.file
	if program == nil && file == nil {
		return
	}
	was := takenBack{*cmp.Or(program, file), *cmp.Or(file, program)}
	l.removed[name] = was
	m.now.program, m.learned = nil, ratelimit.ModelQuota{}
	m.file.forget(was)
}

func (l *life) account() {
	all := make(map[string]ratelimit.ModelQuota)
	for range l.random.IntN(3) {
		all[lifeModels[l.random.IntN(len(lifeModels))]] = l.quota()
	}
	l.say("SetAccountQuotas %v", all)
	l.rl.SetAccountQuotas(all)
	l.resaid = true
	for name, m := range l.models {
		m.now.account, m.file.account = nil, nil
		if q, named := all[name]; named {
			m.now.account = &q
		}
	}
}

func (l *life) step() {
	name := lifeModels[l.random.IntN(len(lifeModels))]
	m := l.models[name]
	switch q := l.quota(); l.random.IntN(12) {
	case 0, 1:
		l.say("SetQuota %s %v", name, q)
		l.rl.SetQuota(name, q)
		m.now.program, m.learned = &q, ratelimit.ModelQuota{}
		delete(l.removed, name)
	case 2, 3:
		l.remove(name)
	case 4, 5:
		l.account()
	case 6, 7:
		l.say("Observe %s %v", name, q)
		l.rl.Observe(name, limits{RPM: limit(q.MaxRPM), TPM: limit(q.MaxTPM)})
		if l.cfg.LearnQuotas {
			m.observe(q)
		}
	case 8:
		l.say("ForgetLearned %s", name)
		l.rl.ForgetLearned(name)
		m.learned = ratelimit.ModelQuota{}
	case 9:
		l.load()
	case 10:
		l.addProvider()
	default:
		l.say("Persist")
		if err := l.rl.Persist(); err != nil {
			l.t.Fatal(err)
		}
		l.file = make(map[string]modelOf)
		for name, m := range l.models {
			if m.holds() != nil {
				l.file[name] = m.saved()
			}
		}
		if l.random.IntN(2) == 0 {
			l.say("another limiter")
			persist.Close(l.t, l.rl)
			l.open()
		}
	}
}

func TestQuotaPrecedenceIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for seed := range times(12, 2, 2000) {
			t.Run(fmt.Sprint(backend, seed), func(t *testing.T) {
				l := &life{t: t, random: rand.New(rand.NewPCG(uint64(seed), 16)), cfg: ratelimit.Config{
					Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
				}}
				l.open()
				for range 150 {
					l.step()
					for _, name := range lifeModels {
						got, has := l.rl.Quotas[name]
						want := l.models[name].holds()
						if has != (want != nil) || has && got != *want {
							t.Fatalf("%s has %+v, %t, want %+v after\n%v", name, got, has, want, l.script)
						}
					}
				}
				persist.Close(t, l.rl)
			})
		}
	}
}
