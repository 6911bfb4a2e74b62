package llmhttp

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// lane is what has one stream_id. Its calls are answered in the order in which they were sent.
type lane struct {
	turns []*turn // that are sent and not settled, in that order
	model string  // that the last call named

	waits bool             // the first message of queue waits for its place
	queue []*socketMessage // which waits for those before
}

// pastTurn is a response that has ended.
type pastTurn struct {
	id     string
	tokens int // of its prompt and output, which a later call may continue
}

const (
	maxLanes = 64   // lanes that are remembered while they are idle; a server allows 33
	maxTurns = 1024 // turns of a connection that are not settled
	maxPast  = 64   // turns whose end is remembered
)

// laneLocked returns the lane of a name, which it adds if it is new.
func (s *socket) laneLocked(name string) *lane {
	if l := s.lanes[name]; l != nil {
		return l
	}
	if len(s.lanes) >= maxLanes {
		for other, l := range s.lanes {
			if len(l.turns) == 0 && !l.waits {
				delete(s.lanes, other)
				break
			}
		}
	}
	l := new(lane)
	s.lanes[name] = l
	return l
}

// newCall returns a call of the connection, whose message is yet to be read.
func (s *socket) newCall() *Call {
	call := &Call{Request: s.request, Adapter: openAI{}.Name(), Operation: responses, Stream: true}
	path := strings.TrimSuffix(s.request.URL.Path, "/")
	call.Model = deployment(strings.TrimSuffix(path, "/responses"))
	call.inPath = call.Model != ""
	return call
}

// begin makes the flight of a message that asks for a response. Without a model it takes that of
// the call before. Where there is none, the message is told as uncounted, and has no flight.
func (s *socket) begin(m *socketMessage) error {
	call := m.in.call
	call.Stream = true
	s.mu.Lock()
	l := s.laneLocked(m.lane)
	if call.Model == "" {
		if call.Model = l.model; call.Model == "" {
			call.Model = s.model
		}
	}
	l.model, s.model = call.Model, call.Model
	if m.about != "" {
		call.continues = true
		for i := range s.past {
			if s.past[i].id == m.about {
				call.carried = s.past[i].tokens
			}
		}
	}
	s.mu.Unlock()
	if m.flight = s.flightOf(call); m.flight != nil {
		return nil
	}
	refusal, err := s.transport.uncountedSocket(s.request)
	if refusal != nil {
		refusal.Body.Close()
		err = errNoModel
	}
	return err
}

// flightOf returns the flight of a call; nil for one that is not counted.
func (s *socket) flightOf(call *Call) *flight {
	name := s.transport.nameOf(call)
	if name == "" {
		return nil
	}
	return s.transport.newFlight(s.ctx, call, name, openAI{}, s.way)
}

// sendCall sends a message whose call was admitted.
func (s *socket) sendCall(m *socketMessage) error {
	f := m.flight
	f.depart()
	s.mu.Lock()
	over := s.over
	var oldest *turn
	if over == nil {
		l := s.laneLocked(m.lane)
		l.turns = append(l.turns, &turn{flight: f})
		if len(l.turns) > maxTurns {
			oldest = l.turns[0]
			l.turns = slices.Delete(l.turns, 0, 1)
		}
	}
	s.mu.Unlock()
	if over != nil {
		f.transport.arrivals.stop(&f.arrival)
		f.transport.models.land(f)
		f.cancel()
		f.transport.report(f, Event{Kind: EventSettled, Source: SourceUnsent, Err: over})
		return over
	}
	if oldest != nil {
		oldest.end(false)
	}
	return s.send(m.raw)
}

// apply has an event settle what it tells.
func (s *socket) apply(e *socketEvent) {
	e.scanner.End()
	if e.kind == "error" {
		s.applyError(e)
		return
	}
	if e.id == "" {
		if e.text > 0 {
			s.write(e)
		}
		return
	}
	t := s.turnOf(e)
	if t == nil {
		return
	}
	t.begin(http.StatusOK)
	if !e.ends() {
		return
	}
	t.mu.Lock()
	if t.stage == answered {
		t.usage = e.usage
		t.problem = nil
		if status, body := e.failure(); body != nil {
			t.problem = classify(status, nil, body, t.host(), time.Now())
		}
	}
	t.mu.Unlock()
	t.end(true)
}

// turnOf returns the turn of an event that names its response; nil if that has ended before. At the
// end of the response it takes the turn out.
func (s *socket) turnOf(e *socketEvent) *turn {
	s.mu.Lock()
	if s.ended || slices.ContainsFunc(s.past, func(p pastTurn) bool { return p.id == e.id }) {
		s.mu.Unlock()
		return nil
	}
	l := s.laneLocked(e.lane)
	at := slices.IndexFunc(l.turns, func(t *turn) bool { return t.id == e.id })
	if at < 0 {
		at = slices.IndexFunc(l.turns, func(t *turn) bool { return t.id == "" })
	}
	if at < 0 {
		model := l.model
		s.mu.Unlock()
		adopted := s.adopt(e, model)
		if adopted == nil {
			return nil
		}
		s.mu.Lock()
		if s.ended {
			s.mu.Unlock()
			adopted.end(false)
			return nil
		}
		l = s.laneLocked(e.lane)
		at = len(l.turns)
		l.turns = append(l.turns, adopted)
	}
	t := l.turns[at]
	t.id = e.id
	var before []*turn
	switch {
	case e.ends():
		l.turns = slices.Delete(l.turns, at, at+1)
		s.rememberLocked(e.id, e.usage.Prompt+e.usage.Output)
	case e.kind == "response.in_progress": // so those before have ended
		before = slices.Clone(l.turns[:at])
		l.turns = slices.Delete(l.turns, 0, at)
		for _, t := range before {
			s.rememberLocked(t.id, 0)
		}
	}
	s.mu.Unlock()
	for _, t := range before {
		t.end(false)
	}
	return t
}

// rememberLocked remembers a response that has ended.
func (s *socket) rememberLocked(id string, tokens int) {
	if len(s.past) == maxPast {
		s.past = slices.Delete(s.past, 0, 1)
	}
	s.past = append(s.past, pastTurn{id, tokens})
}

// adopt returns the turn of a response that no call asked for, such as the one that a server begins
// by itself after response.steer. It is charged even where there is no room for it.
func (s *socket) adopt(e *socketEvent, model string) *turn {
	call := s.newCall()
	if call.Model == "" {
		if call.Model = model; model == "" {
			call.Model = e.model
		}
	}
	f := s.flightOf(call)
	if f == nil {
		return nil
	}
	if _, ok := s.transport.admitNow(f); !ok { // so that commit records the usage without a reservation
		prompt, output := s.transport.estimate(f)
		f.estimated = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
		f.admitted(time.Time{}, prompt, output)
	}
	f.depart()
	return &turn{flight: f}
}

// write counts the text of an event for the response that its lane is at.
func (s *socket) write(e *socketEvent) {
	var current *turn
	s.mu.Lock()
	if l := s.lanes[e.lane]; l != nil {
		at := slices.IndexFunc(l.turns, func(t *turn) bool { return t.id != "" })
		if len(l.turns) > 0 {
			current = l.turns[max(at, 0)]
		}
	}
	s.mu.Unlock()
	if current == nil {
		return
	}
	current.begin(http.StatusOK)
	current.mu.Lock()
	if current.stream != nil {
		current.stream.written = add(current.stream.written, e.text)
	}
	current.mu.Unlock()
}

// applyError settles the call that an error is about. With a status it is that of a call which has
// not begun, and without one that of a response.
func (s *socket) applyError(e *socketEvent) {
	if e.param == "stream_id" && e.lane == defaultLane {
		e.lane = invalidLane
	}
	status := e.refusedStatus()
	s.mu.Lock()
	l := s.lanes[e.lane]
	if l == nil || len(l.turns) == 0 {
		s.mu.Unlock()
		return
	}
	waits := slices.IndexFunc(l.turns, func(t *turn) bool { return t.id == "" })
	begun := slices.IndexFunc(l.turns, func(t *turn) bool { return t.id != "" })
	at := waits
	if begun >= 0 && (waits < 0 || e.status == 0) {
		at = begun
	}
	t := l.turns[at]
	if t.id != "" && e.status != 0 && e.status < 429 {
		s.mu.Unlock()
		return // about another message of the client: a response that has begun is valid
	}
	l.turns = slices.Delete(l.turns, at, at+1)
	if t.id != "" {
		s.rememberLocked(t.id, 0)
	}
	s.mu.Unlock()
	t.fails(status, e)
	t.end(false)
}

// end settles all turns, and has no more follow.
func (s *socket) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.settleAll()
}

// settleAll settles the turns that are open, at what was seen of them.
func (s *socket) settleAll() {
	var open []*turn
	s.mu.Lock()
	for _, l := range s.lanes {
		for _, t := range l.turns {
			if t.id != "" {
				s.rememberLocked(t.id, 0)
			}
		}
		open, l.turns = append(open, l.turns...), nil
	}
	s.mu.Unlock()
	for _, t := range open {
		t.end(false)
	}
}
