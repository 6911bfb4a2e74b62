package former

import (
	"encoding/json"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// key names a reservation: by its process, and the number of its first event there.
type key struct{ process, n int64 }

// charge is what was charged to a model or a pool.
type charge struct {
	model string
	class string // that has a reserve
	key          // of a reservation
	at    int64  // the instant as of which it counts
	state.Count
	isRequest bool
	gone      bool // taken back, or forgotten
	slot      bool // of a reservation that holds one
}

// minute is all charges, and the reservations that nobody has ended.
type minute struct {
	charges []*charge
	room    []charge // for the next ones
	open    map[key]*charge
	names   map[string]string // of models, each once
}

// add does what an event says, which counts at an instant. What is before the cut counts no more.
func (m *minute) add(e *Event, at, cut int64) {
	e.Count = state.Count{Input: max(e.Input, 0), Output: max(e.Output, 0)}.Clamp()
	switch e.Kind {
	case Use:
		if at >= cut {
			m.insert(e, at)
		}
	case Reserve:
		m.begin(key{e.Process, e.N}, m.insert(e, at))
	case Move:
		k := key{e.Process, e.Ref}
		if c := m.open[k]; c != nil {
			c.at, c.Count = at, e.Count
		} else { // its first event was deleted, because it counted no more
			m.begin(k, m.insert(e, at))
		}
	case Amend, Release, Cancel:
		m.end(e.Kind, key{e.Process, e.Ref}, e.Count)
	case ReleaseAll:
		var numbers []int64
		json.Unmarshal([]byte(e.Text), &numbers) // what is no list releases nothing
		for _, n := range numbers {
			m.end(Release, key{e.Process, n}, state.Count{})
		}
	case Reset:
		for _, c := range m.charges {
			c.gone = c.gone || e.Model == "" || c.model == e.Model
		}
	case Gone:
		for k, c := range m.open {
			c.slot = c.slot && k.process != e.Ref
		}
	}
}

func (m *minute) insert(e *Event, at int64) *charge {
	model, known := m.names[e.Model]
	if !known {
		if m.names == nil {
			m.names = make(map[string]string)
		}
		model, m.names[e.Model] = e.Model, e.Model
	}
	if len(m.room) == 0 {
		m.room = make([]charge, 512)
	}
	c := &m.room[0]
	m.room = m.room[1:]
	*c = charge{model: model, key: key{e.Process, e.N}, at: at, Count: e.Count, isRequest: e.Requests > 0}
	if e.Kind == Reserve {
		c.class = e.Text
	}
	m.charges = append(m.charges, c)
	return c
}

// begin opens a reservation. One that is open already is not opened again.
func (m *minute) begin(k key, c *charge) {
	if m.open[k] != nil {
		return
	}
	if m.open == nil {
		m.open = make(map[key]*charge)
	}
	c.key, c.slot = k, true
	m.open[k] = c
}

// end settles a reservation. Also one that has lost its slot is settled: its process lives, and was
// taken for dead.
func (m *minute) end(how Kind, k key, used state.Count) {
	c := m.open[k]
	if c == nil {
		return
	}
	switch how {
	case Amend:
		c.Count = used
	case Cancel:
		c.gone = true
	}
	c.slot = false
	delete(m.open, k)
}
