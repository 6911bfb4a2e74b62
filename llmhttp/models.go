package llmhttp

import (
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// maxModels bounds the models that a Transport remembers.
const maxModels = 1000

// models is the memory of a Transport about models. The zero value is ready.
type models struct {
	mu    sync.Mutex
	named map[string]*model
}

// model is the memory about one model. It is guarded by models.mu.
type model struct {
	pauses   int       // pauses of unknown length that the provider asked for in a row
	pauseEnd time.Time // of the last of these
	// Since the provider answered a call as asked, for models that adapt their limits:
	overloaded time.Time // when it was overloaded first; zero for never
	failures   int       // calls that failed
	// With a Route, of what was set aside, for which no more calls are meant until it answers:
	aside    int       // how often in a row
	asideEnd time.Time // until when
	// slowest is how long the slowest of the last answers took to their headers.
	slowest time.Duration
	// The calls without an answer, the one sent last first.
	flights *flight
}

// get returns the model of a name, which it adds if it is new. With too many models it forgets one
// without calls in flight. That one remains usable, but is no longer found.
func (m *models) get(name string) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.named[name]; known != nil {
		return known
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
	added := new(model)
	m.named[strings.Clone(name)] = added
	return added
}

// depart records that a call is being sent.
func (m *models) depart(f *flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.older = f.model.flights
	if f.older != nil {
		f.older.newer = f
	}
	f.model.flights = f
}

// land records that a call has its answer or failed.
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

// uncounted returns the charges of the calls in flight that were sent after a time.
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
	maxPause   = time.Minute
)

// pause returns how long to pause for a provider that asks for a pause of unknown length: a second
// at first, and twice as long each time in a row.
func (m *models) pause(known *model, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(known.pauseEnd) {
		return known.pauseEnd.Sub(now) // another call of the same burst
	}
	d := maxPause
	if known.pauses < 6 {
		d = firstPause << known.pauses
		known.pauses++
	}
	known.pauseEnd = now.Add(d)
	return d
}

// succeeded records that the provider answered a call as asked, whose headers took so long.
func (m *models) succeeded(known *model, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.pauses, known.failures, known.overloaded = 0, 0, time.Time{}
	known.slowest = max(took, known.slowest-known.slowest/64)
}

// slowest returns how long the slowest of the last answers took to their headers.
func (m *models) slowest(known *model) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return known.slowest
}

// down records that the provider was overloaded, and reports whether it has been for long, without
// an answer.
func (m *models) down(known *model, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known.overloaded.IsZero() {
		known.overloaded = now
	}
	return now.Sub(known.overloaded) >= downAfter
}

// failed records that a call failed, and reports whether too many did in a row for that to be
// chance.
func (m *models) failed(known *model) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.failures = min(known.failures+1, downFailures)
	return known.failures == downFailures
}

// setAside records that a backend is out of credit for a model or failed, so that other backends
// get the calls: for a second at first, and twice as long each time in a row.
func (m *models) setAside(known *model, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(known.asideEnd) {
		return // another call of the same burst
	}
	known.asideEnd = now.Add(min(firstPause<<known.aside, maxPause))
	known.aside = min(known.aside+1, 6)
}

// restore records that a backend answered as asked.
func (m *models) restore(known *model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.aside, known.asideEnd = 0, time.Time{}
}

// withoutAside returns the offers of backends that are not set aside for a model; all if all are.
func (m *models) withoutAside(offers []offer, bare string, now time.Time) []offer {
	m.mu.Lock()
	defer m.mu.Unlock()
	usable := make([]offer, 0, len(offers))
	for _, o := range offers {
		known := m.named[o.backend.standingOf(bare)]
		if known == nil || !now.Before(known.asideEnd) {
			usable = append(usable, o)
		}
	}
	if len(usable) == 0 {
		return offers
	}
	return usable
}
