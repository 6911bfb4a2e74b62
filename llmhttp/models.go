package llmhttp

import (
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// maxModels is of how many models something is remembered.
const maxModels = 1000

// models is what a Transport has learned of each model. The zero value is ready.
type models struct {
	mu    sync.Mutex
	named map[string]*model
}

// model is what was learned of one. It is guarded by models.mu.
type model struct {
	most     int       // the most output tokens of the last answers,
	answers  int       // so many,
	mostWas  int       // and of those before
	learned  bool      // there was any
	problems int       // how often in a row the provider said to wait, and not how long
	coolsTo  time.Time // and when that is over
	// The calls that have no answer yet, the one sent last first.
	flights *flight
}

// get returns what is known of a model, made when it is not yet. A model that was
// forgotten meanwhile, because there are too many, may still be used.
func (m *models) get(name string) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.named[name]; found != nil {
		return found
	}
	if m.named == nil {
		m.named = make(map[string]*model)
	}
	if len(m.named) >= maxModels {
		for other, known := range m.named {
			if known.flights == nil {
				delete(m.named, other)
				break
			}
		}
	}
	made := new(model)
	m.named[strings.Clone(name)] = made
	return made
}

// output is how many tokens a model is expected to write: a quarter more than the most that
// it wrote in its last 32 to 64 answers.
func (m *models) output(known *model) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known.learned {
		most := max(known.most, known.mostWas)
		return most + most/4
	}
	return firstOutput
}

// remembered is how many answers are looked at together.
const remembered = 32

// mostLearned is more than any model writes in an answer. What is larger is a mistake that
// would make all calls wait.
const mostLearned = 1 << 20

// learn notes how many tokens a model wrote.
func (m *models) learn(known *model, output int) {
	if output > mostLearned {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known.most, known.learned = max(known.most, output), true
	if known.answers++; known.answers == remembered {
		known.mostWas, known.most, known.answers = known.most, 0, 0
	}
}

// depart notes a call that is sent now.
func (m *models) depart(f *flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.older = f.model.flights
	if f.older != nil {
		f.older.newer = f
	}
	f.model.flights = f
}

// land notes that a call has its answer, or will have none.
func (m *models) land(f *flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		f.model.flights = f.older
	}
	if f.older != nil {
		f.older.newer = f.newer
	}
	f.older, f.newer = nil, nil
}

// uncounted returns what is charged for the calls on their way that were sent after a time.
func (m *models) uncounted(known *model, after time.Time) (requests int, tokens ratelimit.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := known.flights; f != nil && f.sent.After(after); f = f.older {
		requests++
		tokens.PromptTokens += f.charged.PromptTokens
		tokens.OutputTokens += f.charged.OutputTokens
	}
	return requests, tokens
}

const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// pause is how long to wait after a provider that said to wait, but not how long: a
// second at first, and twice as long each time in a row.
func (m *models) pause(known *model, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(known.coolsTo) {
		return known.coolsTo.Sub(now) // another call of the same burst
	}
	d := mostPause
	if known.problems < 6 {
		d = firstPause << known.problems
		known.problems++
	}
	known.coolsTo = now.Add(d)
	return d
}

// well notes that the provider answered.
func (m *models) well(known *model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.problems = 0
}
