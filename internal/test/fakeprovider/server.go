// Package fakeprovider is a provider of language models for tests: a server that
// speaks the APIs of OpenAI (also as Azure and Groq have it), Anthropic, Gemini (also
// as Vertex has it) and Ollama, enforces limits by itself, and counts what came over them.
//
// All its clocks are those of package time, so that it runs in virtual time within
// a bubble of testing/synctest, together with a [Network].
package fakeprovider

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// maxBody is the largest body of a request that is read, in bytes.
const maxBody = 64 << 20

// Options say how a server behaves, whatever the model. The zero value is a server
// that answers at once and says the truth.
type Options struct {
	// Seed decides all that is random. What is drawn for a request depends on the
	// seed, its path, its body, and how many equal ones came before; not on the others.
	Seed uint64
	// Jitter is the longest time that a request takes to arrive, and again its answer
	// to leave. Each is random, from zero.
	Jitter time.Duration
	// Headers are which headers the OpenAI dialect sends of its limits. Requests by an
	// Azure path have [AzureHeaders] nevertheless.
	Headers Headers
	// HeadersAtArrival makes an answer say what was left when its request was counted,
	// instead of when the answer is written.
	HeadersAtArrival bool
	// Gzip compresses answers to requests that accept it.
	Gzip bool
	// Answer says what is answered to a call. Nil is [DefaultAnswer]. It is called
	// from several goroutines at once.
	Answer func(*Call) Answer
}

// Server is a fake provider. Make one with [New]. It is an [http.Handler], safe for
// concurrent use.
type Server struct {
	options Options

	mu     sync.Mutex
	models map[string]*model
	config map[string]Config
	seen   map[uint64]uint64 // how often a request came, by its hash
	free   int

	journal *journal // nil without one
}

// New returns a server of some models, by name. One that is called "" stands for all
// others: each of them has such limits for itself. Without it they are not found.
func New(options Options, models map[string]Config) *Server {
	if options.Answer == nil {
		options.Answer = DefaultAnswer
	}
	return &Server{
		options: options,
		models:  make(map[string]*model),
		config:  models,
		seen:    make(map[uint64]uint64),
	}
}

// Stats returns what a model has counted so far; zeros for one that nobody asked for.
func (s *Server) Stats(name string) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[name]; m != nil {
		return m.stats
	}
	return Stats{}
}

// Arrivals returns the requests of a model that were counted or refused, in the order in
// which they came.
func (s *Server) Arrivals(name string) []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[name]; m != nil {
		return append([]Arrival(nil), m.arrivals...)
	}
	return nil
}

// Free returns how many requests came that count to no limit: those that count tokens.
func (s *Server) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// model returns what a model has counted, or nil for one that is not there. The
// server must be locked.
func (s *Server) model(name string) *model {
	m := s.models[name]
	if m == nil {
		config, found := s.config[name]
		if !found {
			config, found = s.config[""]
		}
		if !found || name == "" {
			return nil
		}
		m = newModel(name, config)
		s.models[name] = m
	}
	return m
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client went away
	}
	x := &exchange{server: s, w: w, r: r, call: Call{Header: r.Header}}
	x.call.Rand = s.random(r.URL.Path, body)
	if !route(r, &x.call) {
		http.NotFound(w, r)
		return
	}
	x.headers = s.options.Headers
	if x.call.azure {
		x.headers = AzureHeaders
	}
	if err := x.call.read(body); err != nil {
		x.fail(http.StatusBadRequest, "invalid_request_error")
		return
	}
	x.answer = s.options.Answer(&x.call)
	x.answer.fill(&x.call)
	x.serve()
}

// random returns what draws for a request.
func (s *Server) random(path string, body []byte) *rand.Rand {
	h := fnv.New64a()
	io.WriteString(h, path)
	h.Write(body)
	sum := h.Sum64()
	s.mu.Lock()
	n := s.seen[sum]
	s.seen[sum]++
	s.mu.Unlock()
	h.Write(binary.LittleEndian.AppendUint64(nil, n))
	return rand.New(rand.NewPCG(s.options.Seed, h.Sum64()))
}

// jitter sleeps for the time that the network takes. What is under way arrives, so
// no context ends it.
func (s *Server) jitter(r *rand.Rand) {
	if s.options.Jitter > 0 {
		time.Sleep(time.Duration(r.Int64N(int64(s.options.Jitter) + 1)))
	}
}
