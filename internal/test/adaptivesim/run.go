// Package adaptivesim simulates a provider that does not say what it allows, and clients that
// find out, in virtual time. Tests and the program that draws docs/adaptive.svg use it; module
// peers beside it runs other libraries' limiters in it.
package adaptivesim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Outcome is what became of a call.
type Outcome int

// The outcomes.
const (
	Answered   Outcome = iota
	Refused            // the quota is used up: 429
	Overloaded         // too many calls are in flight: 529
	Down               // an outage: 503
)

// Call is a call that has ended.
type Call struct {
	Sent       time.Time
	Outcome    Outcome
	RetryAfter time.Duration
	// Permit is what Try returned.
	Permit any
}

// Client decides when calls are sent.
type Client interface {
	// Try asks to send a call now. If it may not, wait is how long until asking again makes
	// sense, and 0 says when a call has ended.
	Try(now time.Time) (permit any, ok bool, wait time.Duration)
	// Ended tells of a call that has ended.
	Ended(now time.Time, call Call)
	// Level is the client's present limit, in its own unit.
	Level(now time.Time) float64
}

// Dropper is a Client whose calls do not wait: one that may not be sent is given up.
type Dropper interface {
	Client
	Drops()
}

// Run is a simulation: clients of one provider.
type Run struct {
	Provider Provider
	Clients  []Client
	// Joins is when each client begins; those without an entry begin at once.
	Joins []time.Duration
	// Demand is how many calls a second each client wants to make. Nil is more than it may.
	Demand func(time.Duration) float64
	Length time.Duration
	Seed   uint64
	// Sleep is called with the time to the next event, for clients that read the clock. Nil
	// is for those that do not.
	Sleep func(time.Duration)
	// Start is the instant of the beginning. With Sleep it has to be the clock's.
	Start time.Time
}

// Second is what happened to a client in one second.
type Second struct {
	Sent, Answered, Refused, Overloaded, Down int // of the calls that arrived in it
	Level                                     float64
}

type event struct {
	at     time.Duration
	seq    int
	client int
	kind   kind
	call   Call
}

type kind int

const (
	wake kind = iota
	arrive
	back
	want
	sample
)

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// running is a Run under way.
type running struct {
	Run
	provider *provider
	rng      *rand.Rand
	queue    events
	seq      int
	wakes    []time.Duration // the valid one of each client, -1 for none
	backlog  []int           // calls that wait, with a Demand
	seconds  [][]Second
}

// Do runs the simulation, and returns the seconds of each client.
func (r Run) Do() [][]Second {
	if r.Start.IsZero() {
		r.Start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	}
	n := len(r.Clients)
	w := &running{
		Run: r, rng: rand.New(rand.NewPCG(r.Seed, 20)),
		provider: newProvider(r.Provider, rand.New(rand.NewPCG(r.Seed, 21))),
		wakes:    make([]time.Duration, n), backlog: make([]int, n), seconds: make([][]Second, n),
	}
	for i := range r.Clients {
		w.seconds[i] = make([]Second, int(r.Length/time.Second)+1)
		join := time.Duration(0)
		if i < len(r.Joins) {
			join = r.Joins[i]
		}
		w.wakes[i] = join
		w.add(join, i, wake, Call{})
		if r.Demand != nil {
			w.add(join, i, want, Call{})
		}
	}
	w.add(0, 0, sample, Call{})
	for now := time.Duration(0); len(w.queue) > 0; {
		e := heap.Pop(&w.queue).(event)
		if e.at >= r.Length {
			break
		}
		if r.Sleep != nil && e.at > now {
			r.Sleep(e.at - now)
		}
		now = e.at
		w.handle(e)
	}
	return w.seconds
}

func (w *running) add(at time.Duration, client int, k kind, call Call) {
	w.seq++
	heap.Push(&w.queue, event{at, w.seq, client, k, call})
}

func (w *running) handle(e event) {
	switch e.kind {
	case wake:
		if w.wakes[e.client] == e.at {
			w.send(e.client, e.at)
		}
	case want:
		w.backlog[e.client]++
		w.add(e.at+time.Duration(w.rng.ExpFloat64()/max(w.Demand(e.at), 0.001)*1e9), e.client, want, Call{})
		if w.wakes[e.client] < 0 || w.backlog[e.client] == 1 {
			w.send(e.client, e.at)
		}
	case arrive:
		r := w.provider.arrive(e.at)
		s := &w.seconds[e.client][e.at/time.Second]
		s.Sent++
		switch r.Outcome {
		case Answered:
			s.Answered++
		case Refused:
			s.Refused++
		case Overloaded:
			s.Overloaded++
		case Down:
			s.Down++
		}
		e.call.Outcome, e.call.RetryAfter = r.Outcome, r.RetryAfter
		w.add(e.at+r.Takes, e.client, back, e.call)
	case back:
		if e.call.Outcome == Answered {
			w.provider.inFlight--
		}
		w.Clients[e.client].Ended(w.Start.Add(e.at), e.call)
		if w.wakes[e.client] < 0 {
			w.send(e.client, e.at)
		}
	case sample:
		for i, c := range w.Clients {
			w.seconds[i][e.at/time.Second].Level = c.Level(w.Start.Add(e.at))
		}
		w.add(e.at+time.Second, 0, sample, Call{})
	}
}

// send sends as many calls of a client as it may.
func (w *running) send(client int, now time.Duration) {
	for {
		if w.Demand != nil && w.backlog[client] == 0 {
			w.wakes[client] = -1
			return
		}
		permit, ok, wait := w.Clients[client].Try(w.Start.Add(now))
		if _, drops := w.Clients[client].(Dropper); !ok && drops {
			w.backlog[client]--
			continue
		}
		if !ok {
			w.wakes[client] = -1
			if wait > 0 {
				w.wakes[client] = now + wait
				w.add(now+wait, client, wake, Call{})
			}
			return
		}
		w.backlog[client]--
		w.add(now+w.provider.trip(), client, arrive, Call{Sent: w.Start.Add(now), Permit: permit})
	}
}
