package debugpage

import (
	"context"
	"net/http"
	"sync"
	"weak"
)

// maxServers is the most servers whose shutdown is noticed. A handler has one, or two.
const maxServers = 16

// shutdowns notices when a server shuts down. Server.Shutdown waits for requests that are served,
// and a stream has no end of its own. The zero value is ready for use.
type shutdowns struct {
	mu      sync.Mutex
	servers map[weak.Pointer[http.Server]]context.Context
}

// of returns a context that ends when a server shuts down.
func (s *shutdowns) of(server *http.Server) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := weak.Make(server)
	if ctx, found := s.servers[key]; found {
		return ctx
	}
	for other := range s.servers {
		if other.Value() == nil {
			delete(s.servers, other)
		}
	}
	if len(s.servers) >= maxServers {
		return context.Background()
	}
	ctx, cancel := context.WithCancel(context.Background())
	server.RegisterOnShutdown(cancel)
	if s.servers == nil {
		s.servers = make(map[weak.Pointer[http.Server]]context.Context)
	}
	s.servers[key] = ctx
	return ctx
}
