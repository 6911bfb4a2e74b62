package llmhttp

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errSocketHandler says why a connection ended. What a panic says, and where, follows.
var errSocketHandler = errors.New("llmhttp: a handler of the events of a WebSocket did not return")

// guard calls f on a goroutine of the socket. There, a panic of OnEvent or of another handler of
// the program would end the program, as no caller can recover it. It ends the connection instead,
// and Read and Write return it.
func (s *socket) guard(f func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		why := errSocketHandler // for runtime.Goexit
		if v := recover(); v != nil {
			why = fmt.Errorf("%w: panic: %v\n%s", errSocketHandler, v, debug.Stack())
		}
		s.crash(why)
	}()
	f()
	returned = true
}

// crash ends the connection because a handler of the program did not return. All open calls are
// settled.
func (s *socket) crash(why error) {
	s.stop(why)
	s.mu.Lock()
	if s.broken == nil {
		s.broken = why
	}
	s.mu.Unlock()
	s.inbox.finish(why)
	defer func() {
		recover() // the handler panics again, of which the first time is told
		s.conn.Close()
	}()
	s.end()
}
