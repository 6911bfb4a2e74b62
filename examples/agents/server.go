package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fakeprovider"
)

// provider answers chat completions and enforces its limits as OpenAI does: it charges the larger
// of max_tokens and a quarter of the prompt's characters when a call arrives, and refunds
// nothing. It is the judge of this program, so it shares no code with the limiter, nor with the
// estimate of the agents.
type provider struct {
	*fakeprovider.Server
	latency func() time.Duration // until an answer is ready
}

// maxLimit is the largest limit that the provider enforces.
const maxLimit = 100_000_000

// newProvider returns a provider with limits for a minute. Zero is unlimited.
func newProvider(rpm, tpm int) *provider {
	p := &provider{latency: func() time.Duration { return 50*time.Millisecond + rand.N(350*time.Millisecond) }}
	p.Server = fakeprovider.New(fakeprovider.Options{
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay = p.latency()
			return a
		},
	}, map[string]fakeprovider.Config{"": {
		Limits: fakeprovider.Limits{fakeprovider.RPM: min(rpm, maxLimit), fakeprovider.TPM: min(tpm, maxLimit)},
		Count:  fakeprovider.CountAdmission,
	}})
	return p
}

// server is a provider that listens on the loopback interface and keeps a log. It goes on with
// the log of a run that was interrupted, so that it still counts what came then.
type server struct {
	url      string
	provider *provider
	log      string // the file
	http     *http.Server
	serving  sync.WaitGroup
	whole    bool // the next run begins a log of its own
}

// startServer starts a provider that logs to the file at log. The caller must close it.
func startServer(p *provider, log string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	if err := p.Keep(log); err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), listener.Close())
	}
	s := &server{
		url: "http://" + listener.Addr().String() + "/v1", provider: p, log: log,
		http: &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second},
	}
	s.serving.Go(func() { s.http.Serve(listener) }) // returns when it is closed
	return s, nil
}

// kept is where the log will be when the server is closed.
func (s *server) kept() string {
	if s.whole {
		return s.log + ".last"
	}
	return s.log
}

// close ends the server. The log of a whole run stays, under another name.
func (s *server) close() error {
	s.http.Close()
	s.serving.Wait()
	err := s.provider.CloseJournal()
	if s.whole {
		err = errors.Join(err, os.Rename(s.log, s.kept()))
	}
	return err
}

// logged is what the server's log says of all runs since the last whole one.
type logged struct {
	calls, refused int // of them
	now, nowTokens int // calls and charged tokens of this run
}

// read returns what the log says; this run began at a time.
func (s *server) read(began time.Time) (l logged, err error) {
	records, err := fakeprovider.ReadJournal(s.log)
	for _, r := range records {
		l.calls++
		if r.Refused {
			l.refused++
		}
		if !r.At.Before(began) {
			l.now++
			if !r.Refused {
				l.nowTokens += r.Charge[fakeprovider.TPM]
			}
		}
	}
	return l, err
}
