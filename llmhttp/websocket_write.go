package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/pieces"
)

// socket is the connection of a WebSocket whose calls are counted. It is the body of the answer
// that opened it. Read and Write may be called at the same time, and Close at any time. One
// goroutine reads from the server until the connection ends, because the answer to a refused call
// may have to come first; another one runs for each lane that waits.
type socket struct {
	transport *Transport
	request   *http.Request // that opened it
	way       *way          // to the one backend; nil without a Route
	conn      io.ReadWriteCloser
	ctx       context.Context // of the calls; ends with the connection
	cancel    context.CancelFunc
	writes    chan struct{} // held by the goroutine that writes to conn
	inbox     inbox

	writing sync.Mutex  // guards the fields below, which Write alone uses
	client  frameReader // of the client's bytes
	message *socketMessage
	frames  []byte // of the message, or of none
	control []byte // the frame of the control that is under way
	content []byte // the unmasked piece

	mu     sync.Mutex // guards the fields below
	over   error      // why the client may send no more messages; nil while it may
	broken error      // why it may send nothing at all
	ended  bool       // all turns are settled, and none follow
	lanes  map[string]*lane
	turns  []*turn       // that are sent and not settled, in that order
	model  string        // that the last call named
	held   int64         // bytes of the messages in queues
	queued int           // messages in queues
	room   chan struct{} // closed and replaced when either gets less
	past   []pastTurn    // the last ones, the newest last
}

// maxQueued bounds the messages that wait for their lanes. MaxBody bounds their bytes.
const maxQueued = 256

// keptFrames is the size in bytes up to which the buffer of a message is used again.
const keptFrames = 64 << 10

// The reasons why a message is not sent.
var (
	errSocketClosed = fmt.Errorf("llmhttp: write to a WebSocket: %w", net.ErrClosed)
	errSocketSize   = errors.New("llmhttp: write to a WebSocket: message exceeds Transport.MaxBody")
)

// Write sends what the client writes: control frames at once, and messages once they are complete
// and, if they ask for a response, admitted. A message that waits, and the later ones of its lane,
// are sent by another goroutine, and Write returns. It blocks while more than MaxBody waits.
func (s *socket) Write(p []byte) (int, error) {
	s.writing.Lock() // as a net.Conn does
	defer s.writing.Unlock()
	returned := false
	defer func() {
		if !returned {
			s.crash(errSocketHandler) // a handler of the program panics, and that goes on to the caller
		}
	}()
	n, err := s.takeAll(p)
	returned = true
	return n, err
}

// takeAll is Write without the lock.
func (s *socket) takeAll(p []byte) (int, error) {
	for done := 0; done < len(p); {
		if err := s.brokenErr(); err != nil {
			return done, err
		}
		part, err := s.client.next(p[done:])
		if err == nil {
			err = s.take(&part)
		} else {
			err = fmt.Errorf("llmhttp: write to a WebSocket: %w", err)
			s.abort(closedForProtocol, err)
		}
		if err != nil {
			return done, err
		}
		done += len(part.bytes)
	}
	return len(p), nil
}

func (s *socket) brokenErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// take takes the next part of the client's frames.
func (s *socket) take(part *framePart) error {
	head := &s.client.head
	if part.begins {
		if head.isControl() {
			s.control = append(s.control[:0], s.client.headerBytes()...)
		} else if err := s.beginFrame(head); err != nil {
			return err
		}
	}
	switch {
	case !part.payload:
	case head.isControl():
		s.control = append(s.control, part.bytes...)
	default:
		s.frames = append(s.frames, part.bytes...)
		for piece := part.bytes; len(piece) > 0; { // so that the copy stays small
			n := min(len(piece), pieces.Size)
			s.content = s.client.unmask(s.content[:0], piece[:n])
			s.message.read(s.content)
			piece = piece[n:]
		}
	}
	switch {
	case !part.ends:
		return nil
	case head.isControl():
		if head.code == closeFrame {
			s.stop(errSocketClosed)
		}
		return s.send(s.control)
	case head.final:
		return s.endMessage()
	}
	return nil
}

// beginFrame takes the header of a frame of a message.
func (s *socket) beginFrame(head *frameHead) error {
	s.mu.Lock()
	over := s.over
	if over != nil && s.broken == nil {
		s.broken = over // what follows could not be told apart
	}
	s.mu.Unlock()
	if over != nil {
		return over
	}
	if s.message == nil {
		s.message = newMessage(s.newCall(), s.transport.maxBody())
	}
	limit := s.transport.maxBody()
	// Headers count too: the fragments of a message may be empty, and there may be any number.
	if head.size > uint64(limit) || s.message.size > limit-int64(head.size) || int64(len(s.frames)) > 2*limit+keptFrames {
		s.abort(closedForSize, errSocketSize)
		return errSocketSize
	}
	s.frames = append(s.frames, s.client.headerBytes()...)
	return nil
}

// endMessage sends a complete message, or has its lane hold it.
func (s *socket) endMessage() error {
	m := s.message
	m.raw, s.message, s.frames = s.frames, nil, nil
	m.end()
	if m.calls() {
		if err := s.begin(m); err != nil {
			return s.refuse(m, err)
		}
	}
	held, err := s.hold(m, false)
	if held || err != nil {
		return err
	}
	if m.flight == nil {
		err = s.send(m.raw)
	} else if _, ok := s.transport.admitNow(m.flight); ok {
		err = s.sendCall(m)
	} else {
		_, err = s.hold(m, true)
		return err
	}
	if cap(m.raw) <= keptFrames {
		s.frames = m.raw[:0]
	}
	return err
}

// hold puts a message into the queue of its lane, if that waits or the message is to make it wait.
// It blocks while the queues are full.
func (s *socket) hold(m *socketMessage, waits bool) (held bool, err error) {
	if m.passes() {
		return false, nil
	}
	size := int64(len(m.raw))
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		l := s.laneLocked(m.lane)
		if s.over != nil {
			return false, s.over
		}
		if !waits && !l.waits {
			return false, nil
		}
		if s.queued == 0 || s.queued < maxQueued && s.held+size <= s.transport.maxBody() {
			if m.flight != nil {
				m.flight.began = time.Now()
			}
			l.queue = append(l.queue, m)
			s.queued, s.held = s.queued+1, s.held+size
			if !l.waits {
				l.waits = true
				go s.guard(func() { s.drain(l) })
			}
			return true, nil
		}
		room := s.room
		s.mu.Unlock()
		<-room
		s.mu.Lock()
	}
}

// drain sends the messages of a lane, each after the ones before it, until none waits.
func (s *socket) drain(l *lane) {
	for {
		s.mu.Lock()
		if len(l.queue) == 0 {
			l.queue, l.waits = nil, false
			s.mu.Unlock()
			return
		}
		m := l.queue[0]
		s.mu.Unlock()
		s.forward(m)
		s.mu.Lock()
		l.queue[0] = nil
		l.queue = l.queue[1:]
		s.queued, s.held = s.queued-1, s.held-int64(len(m.raw))
		s.makeRoomLocked()
		s.mu.Unlock()
	}
}

// makeRoomLocked wakes the Write that waits for the queues.
func (s *socket) makeRoomLocked() {
	close(s.room)
	s.room = make(chan struct{})
}

// forward sends a message of a lane's queue, once it has its place if it asks for a response. What
// goes wrong ends the connection, so nobody needs the error.
func (s *socket) forward(m *socketMessage) {
	if m.flight == nil {
		s.mu.Lock()
		over := s.over
		s.mu.Unlock()
		if over == nil {
			s.send(m.raw)
		}
		return
	}
	if err := s.transport.admit(m.flight); err != nil {
		s.refuse(m, err)
		return
	}
	s.sendCall(m)
}

// refuse tells the client in the server's place that a message is not sent.
func (s *socket) refuse(m *socketMessage, err error) error {
	var event []byte
	if limit := (*ratelimit.LimitError)(nil); errors.As(err, &limit) {
		event = errorEvent(http.StatusTooManyRequests, m.lane, openAI{}.Refusal(refusalMessage(limit)))
	} else {
		const after = `,"type":"server_error","param":null,"code":"server_error"}}`
		event = errorEvent(http.StatusServiceUnavailable, m.lane,
			refusalBody(`{"error":{"message":`, refusedText+": "+err.Error(), after))
	}
	if m.flight != nil {
		s.transport.report(m.flight, Event{Kind: EventRefused, Err: err})
	}
	if s.ctx.Err() == nil {
		s.inbox.putIn(event)
	}
	return nil
}

// send writes whole frames to the server. An error ends the connection.
func (s *socket) send(frames []byte) error {
	s.writes <- struct{}{}
	n, err := s.conn.Write(frames)
	<-s.writes
	if err == nil && n < len(frames) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.stop(err)
		s.end()
	}
	return err
}

// stop keeps the client from sending further messages, also those that wait.
func (s *socket) stop(why error) {
	s.mu.Lock()
	if s.over == nil {
		s.over = why
	}
	s.makeRoomLocked()
	s.mu.Unlock()
	s.cancel()
}

// abort closes the connection for what the client or the server did, and tells both.
func (s *socket) abort(code uint16, why error) {
	s.stop(why)
	s.mu.Lock()
	first := s.broken == nil
	if first {
		s.broken = why
	}
	s.mu.Unlock()
	if !first {
		return
	}
	reason := []byte{byte(code >> 8), byte(code)}
	s.inbox.seal(appendFrame(nil, closeFrame, reason, false))
	s.send(appendFrame(nil, closeFrame, reason, true))
	s.end()
}

// Close settles the open calls at what was seen of them, and closes the connection.
func (s *socket) Close() (err error) {
	defer s.inbox.close()
	defer func() { err = s.conn.Close() }() // also if OnEvent panics
	s.stop(errSocketClosed)
	s.end()
	return nil
}

// CloseWrite tells the server that nothing follows, if the connection can do that.
func (s *socket) CloseWrite() error {
	s.stop(errSocketClosed)
	if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("llmhttp: close a WebSocket for writing: %w", http.ErrNotSupported)
}
