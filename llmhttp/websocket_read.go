package llmhttp

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	socketPiece = 16 << 10 // bytes that are read from the server at once
	inboxSize   = 64 << 10 // bytes that wait for the client to read them, before more are read
	maxPut      = 1 << 20  // bytes that do, before a refused call waits, too
)

var errSocketRead = fmt.Errorf("llmhttp: read from a WebSocket: %w", net.ErrClosed)

// inbox is what the client is to read: the server's bytes, and between its messages the frames
// that the Transport puts in.
type inbox struct {
	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	bytes   []byte
	at      int    // bytes that the client has read
	err     error  // that the client reads after the bytes
	between bool   // bytes end with a frame,
	clear   bool   // and with a message
	put     []byte // frames for the next time when clear
	last    []byte // the frame after which nothing comes, for the next time when between
	sealed  bool   // nothing comes any more
	closed  bool   // by the client
}

func (in *inbox) unread() int { return len(in.bytes) - in.at }

// Read reads what the server sent, and what the Transport put in.
func (s *socket) Read(p []byte) (int, error) {
	in := &s.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.unread() == 0 && in.err == nil && !in.closed && len(p) > 0 {
		in.changed.Wait()
	}
	switch {
	case in.closed:
		return 0, errSocketRead
	case len(p) == 0:
		return 0, nil
	case in.unread() == 0:
		return 0, in.err
	}
	n := copy(p, in.bytes[in.at:])
	if in.at += n; in.at == len(in.bytes) {
		in.bytes, in.at = in.bytes[:0], 0
	}
	in.changed.Broadcast()
	return n, nil
}

// pump reads from the server until the connection ends.
func (s *socket) pump() {
	piece := make([]byte, socketPiece)
	var server frameReader
	event := newEvent()
	for {
		n, err := s.conn.Read(piece)
		if !s.receive(&server, event, piece[:n]) {
			err = io.EOF // nothing that follows can be read
		}
		if err != nil {
			s.stop(errSocketClosed)
			s.end()
			s.inbox.finish(err)
			return
		}
	}
}

// receive passes bytes of the server on, and has each event settle what it tells. It returns false
// if the server breaks the protocol.
func (s *socket) receive(server *frameReader, event *socketEvent, p []byte) bool {
	for len(p) > 0 {
		part, err := server.next(p)
		if err != nil {
			s.abort(closedForProtocol, errSocketClosed)
			return false
		}
		p = p[len(part.bytes):]
		switch head := &server.head; {
		case head.isControl():
			if part.ends && head.code == closeFrame {
				s.stop(errSocketClosed)
				s.end()
			}
		default:
			if part.payload {
				event.read(part.bytes)
			}
			if part.ends && head.final {
				s.apply(event)
				event.reset()
			}
		}
		s.inbox.add(part.bytes, server.betweenFrames(), !server.open, s.waitForClient)
	}
	return true
}

// waitForClient settles the open calls if the client does not read for MaxIdle. It returns the
// function that ends the wait.
func (s *socket) waitForClient() (stop func() bool) {
	return time.AfterFunc(s.transport.maxIdle(), func() { s.guard(s.settleAll) }).Stop
}

// add adds bytes of the server, which end with a frame (between) and with a message (clear), or
// not. It waits, between calls of wait and its result, while the client has too much to read.
func (in *inbox) add(p []byte, between, clear bool, wait func() func() bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.unread() >= inboxSize && !in.closed {
		stop := wait()
		for in.unread() >= inboxSize && !in.closed {
			in.changed.Wait()
		}
		stop()
	}
	if in.sealed || in.closed {
		return
	}
	if in.at >= inboxSize { // a client that is always behind never reads the last byte
		in.bytes, in.at = append(in.bytes[:0], in.bytes[in.at:]...), 0
	}
	in.bytes = append(in.bytes, p...)
	in.between, in.clear = between, clear && between
	in.flush()
}

// flush adds what was put in, if it may come here.
func (in *inbox) flush() {
	if in.clear {
		in.bytes = append(in.bytes, in.put...)
		in.put = nil
	}
	if in.between && in.last != nil {
		in.bytes = append(in.bytes, in.last...)
		in.last, in.put, in.sealed = nil, nil, true
	}
	in.changed.Broadcast()
}

// putIn adds a message as soon as it may come. It waits while the client has too much to read.
func (in *inbox) putIn(frame []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.put)+in.unread() >= maxPut && !in.closed && !in.sealed && in.err == nil {
		in.changed.Wait()
	}
	if in.closed || in.sealed || in.err != nil {
		return
	}
	in.put = append(in.put, frame...)
	in.flush()
}

// seal adds a frame as soon as it may come, after which nothing comes.
func (in *inbox) seal(frame []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.last == nil && !in.sealed {
		in.last = frame
		in.flush()
	}
}

// finish has the client read an error after all bytes.
func (in *inbox) finish(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
	in.changed.Broadcast()
}

// close has the client read nothing more.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.bytes, in.at, in.put = true, nil, 0, nil
	in.changed.Broadcast()
}
