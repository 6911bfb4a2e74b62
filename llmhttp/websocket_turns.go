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
	model string // that the last call named

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
			if !l.waits {
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
	if call.Model != "" { // the program does not count it
		return nil
	}
	return s.transport.tellUncounted(s.request, "", noModel)
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
	var before []*turn
	if over == nil {
		before = s.addLocked(&turn{flight: f, lane: m.lane})
	}
	s.mu.Unlock()
	if over != nil {
		f.transport.arrivals.stop(&f.arrival)
		f.transport.models.land(f)
		f.cancel()
		f.transport.report(f, Event{Kind: EventSettled, Source: SourceUnsent, Err: over})
		return over
	}
	endAll(before)
	return s.send(m.raw)
}

// addLocked adds a turn, and returns the one that has to end for it, if there are too many.
func (s *socket) addLocked(t *turn) (before []*turn) {
	if len(s.turns) == maxTurns {
		before = append(before, s.takeLocked(0))
	}
	s.turns = append(s.turns, t)
	return before
}

// apply has an event settle what it tells.
func (s *socket) apply(e *socketEvent) {
	e.scanner.End()
	if e.kind == "error" {
		s.applyError(e)
		return
	}
	if e.id == "" && !e.ends() {
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

// turnOf returns the turn of an event that is about a response; nil if that has ended before. At
// the end of the response it takes the turn out.
func (s *socket) turnOf(e *socketEvent) *turn {
	var before []*turn
	s.mu.Lock()
	at, known := s.findLocked(e)
	if !known {
		model := s.laneLocked(e.lane).model
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
		before = s.addLocked(adopted)
		at = len(s.turns) - 1
	}
	if at < 0 {
		s.mu.Unlock()
		return nil
	}
	t := s.turns[at]
	t.id, t.lane = e.id, e.lane
	switch {
	case e.ends():
		s.takeLocked(at)
		s.rememberLocked(e.id, e.usage.Prompt+e.usage.Output)
	case e.kind == "response.in_progress": // so those before in its lane have ended
		for i := at - 1; i >= 0; i-- {
			if s.turns[i].lane == e.lane {
				before = append(before, s.takeLocked(i))
			}
		}
	}
	s.mu.Unlock()
	endAll(before)
	return t
}

// findLocked returns the index of the turn that an event is about; -1 for a response that has ended
// before. It returns false for a response that no call asked for.
func (s *socket) findLocked(e *socketEvent) (at int, known bool) {
	if s.ended || e.id != "" && slices.ContainsFunc(s.past, func(p pastTurn) bool { return p.id == e.id }) {
		return -1, true
	}
	if e.id == "" {
		return slices.IndexFunc(s.turns, func(t *turn) bool { return t.lane == e.lane }), true
	}
	if at = slices.IndexFunc(s.turns, func(t *turn) bool { return t.id == e.id }); at >= 0 {
		return at, true
	}
	at = slices.IndexFunc(s.turns, func(t *turn) bool { return t.id == "" && t.lane == e.lane })
	if at < 0 && e.lane == defaultLane { // the server may not know streams
		at = slices.IndexFunc(s.turns, func(t *turn) bool { return t.id == "" })
	}
	return at, at >= 0
}

// takeLocked takes a turn out, and remembers its response.
func (s *socket) takeLocked(at int) *turn {
	t := s.turns[at]
	s.turns = slices.Delete(s.turns, at, at+1)
	s.rememberLocked(t.id, 0)
	return t
}

// rememberLocked remembers that a response has ended, and its tokens.
func (s *socket) rememberLocked(id string, tokens int) {
	if id == "" {
		return
	}
	if last := len(s.past) - 1; last >= 0 && s.past[last].id == id {
		s.past = s.past[:last]
	}
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
	return &turn{flight: f, lane: e.lane}
}

// write counts the text of an event for the response that its lane is at.
func (s *socket) write(e *socketEvent) {
	s.mu.Lock()
	at := slices.IndexFunc(s.turns, func(t *turn) bool { return t.lane == e.lane })
	if at < 0 {
		s.mu.Unlock()
		return
	}
	current := s.turns[at]
	s.mu.Unlock()
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
	at := s.failedLocked(e)
	if at < 0 {
		s.mu.Unlock()
		return
	}
	t := s.takeLocked(at)
	s.mu.Unlock()
	defer t.end(false)
	t.fails(status, e)
}

// failedLocked returns the index of the turn that an error is about; -1 for an error that is about
// something else.
func (s *socket) failedLocked(e *socketEvent) int {
	waits, begun, all, last := -1, -1, 0, -1
	for i, t := range s.turns {
		switch {
		case t.id == "" && t.lane == e.lane && waits < 0:
			waits = i
		case t.id != "" && t.lane == e.lane && begun < 0:
			begun = i
		}
		if t.id == "" {
			all, last = all+1, i
		}
	}
	switch {
	case begun >= 0 && (e.status == 0 || waits < 0 && e.status >= http.StatusTooManyRequests):
		return begun
	case waits >= 0:
		return waits
	case begun < 0 && e.lane == defaultLane && all == 1:
		return last // the server may not know streams, or ends them all
	}
	return -1 // a response that has begun is valid, so it is about another message
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
	s.mu.Lock()
	open := s.turns
	s.turns = nil
	for _, t := range open {
		s.rememberLocked(t.id, 0)
	}
	s.mu.Unlock()
	endAll(open)
}

// endAll settles turns in their order, all of them also if OnEvent panics.
func endAll(turns []*turn) {
	for _, t := range slices.Backward(turns) {
		defer t.end(false)
	}
}
