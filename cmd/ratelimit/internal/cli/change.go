package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/status"
)

// change changes the shared quota, as one that says nothing of it otherwise. It returns an error
// unless all of the change is where the others find it.
func (s *sharedState) change(ctx context.Context, stderr io.Writer, do func(*ratelimit.RateLimiter)) error {
	var mu sync.Mutex
	var told []error
	cfg := ratelimit.Config{Providers: []ratelimit.Provider{}, MatchVersions: true, FailClosed: true, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}}
	limiter, closeAll, err := s.open(ctx, cfg)
	if err != nil {
		return err
	}
	do(limiter)
	err = errors.Join(limiter.Persist(), closeAll())
	mu.Lock()
	defer mu.Unlock()
	for _, warning := range told {
		fmt.Fprintf(stderr, "ratelimit: warning: %v\n", warning)
	}
	return err
}

// versions are looked for where a command names a model.
var versions = ratelimit.Config{MatchVersions: true}

// look reads a report of the shared quota, as ratelimit status shows it.
func (s *sharedState) look(ctx context.Context, model string) (*status.Report, error) {
	var is *status.Report
	err := s.read(ctx, versions, func(cfg ratelimit.Config) (err error) {
		is, err = status.Read(ctx, cfg, model)
		return err
	})
	return is, err
}
