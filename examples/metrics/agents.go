package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
	"github.com/prometheus/client_golang/prometheus"
)

// The models: calls of the first stand in line, those of the second are refused here, and those of
// the third by the provider. What the fourth allows nobody says: it is found.
const (
	queued     = "gpt-4.1"
	refused    = "gpt-4.1-mini"
	overlooked = "gpt-oss-120b"
	searched   = "pool/llama-4"

	perModel = 4                      // agents
	patience = 5 * time.Second        // for room
	pause    = 250 * time.Millisecond // between the calls of an agent
	longer   = time.Second            // after a refusal
)

var (
	models  = []string{queued, refused, overlooked, searched}
	classes = []string{people, batch}
)

// quotas are what the program knows of the account. That of overlooked is Cerebras' profile.
var quotas = map[string]ratelimit.ModelQuota{
	queued:  {MaxRPM: 120, MaxTPM: 60_000, Burst: 4 * time.Second, MaxInFlight: 8, MaxSpendPerDay: money.USD(4)},
	refused: {MaxRPM: 30, MaxTPM: 20_000, MaxRPD: 1000},
	searched: {
		AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64,
	},
}

// The first two models share a bucket and a budget. Half of the agents of each model work for
// people, who get three times as much of what becomes free as the others do.
const shared, people, batch = "gpt-4.1-family", "people", "batch"

// well is the configuration of a service that does not hang.
func well() ratelimit.Config {
	return ratelimit.Config{
		Quotas: quotas,
		Pools: map[string]ratelimit.Pool{shared: {
			Models: []string{queued, refused},
			Quota:  ratelimit.ModelQuota{MaxRPM: 105, Burst: 4 * time.Second, MaxSpendPerDay: money.USD(5), MaxSpendPerMonth: money.USD(100)},
		}},
		Classes: map[string]ratelimit.Class{people: {Weight: 3}, batch: {}},
		Prices: map[string]money.Price{
			queued:  {Input: money.USD(2), Output: money.USD(8)},
			refused: {Input: money.USD(0.4), Output: money.USD(1.6)},
		},
		Providers:   []ratelimit.Provider{ratelimit.ProviderCerebras},
		AutoPersist: ratelimit.AutoPersist{Delay: time.Second / 4, MaxWait: time.Second},
		OnError:     func(err error) { log.Print("limiter: ", err) },
	}
}

// startProvider starts the provider, which enforces limits of its own and writes each request to a
// log at path. The caller must close it.
func startProvider(path string) (*fakeprovider.Host, error) {
	return fakeprovider.Listen(fakeprovider.New(fakeprovider.Options{
		Headers: fakeprovider.NoHeaders,
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay, a.Spread = 50*time.Millisecond, 250*time.Millisecond
			return a
		},
	}, map[string]fakeprovider.Config{
		queued:     {Limits: fakeprovider.Limits{fakeprovider.RPM: 120, fakeprovider.TPM: 60_000}},
		refused:    {Limits: fakeprovider.Limits{fakeprovider.RPM: 30, fakeprovider.TPM: 20_000}},
		overlooked: {Limits: fakeprovider.Limits{fakeprovider.RPM: 10}},
		searched:   {Limits: fakeprovider.Limits{fakeprovider.RPM: 60}, Enforcement: fakeprovider.TokenBucket},
	}), path)
}

// counts is what the agents saw.
type counts struct {
	mu                        sync.Mutex
	answered, denied, by, bad int // calls: denied here, refused by the provider, failed in another way
	err                       error
}

func (c *counts) call(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	problem, known := llmhttp.FromError(err)
	switch {
	case err == nil:
		c.answered++
	case known && problem.Kind == llmhttp.NotSent:
		c.denied++
	case known && problem.Kind == llmhttp.RateLimited:
		c.by++
	default:
		c.bad++
		c.err = err
	}
}

// work has the agents call until ctx ends. Calls that are under way then are finished.
func (s *service) work(ctx context.Context, url string, seen *counts) {
	var all sync.WaitGroup
	for i := range perModel * len(models) {
		all.Go(func() {
			for ctx.Err() == nil {
				call := context.WithValue(context.WithoutCancel(ctx), traceKey{}, fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
				call = ratelimit.WithClass(call, classes[i/len(models)%len(classes)])
				err := s.ask(call, url, models[i%len(models)])
				seen.call(err)
				if err != nil {
					rest(ctx, longer)
				} else {
					rest(ctx, pause)
				}
			}
		})
	}
	all.Wait()
}

// ask makes one call. Its error is an [*llmhttp.Problem] if the limiter or the provider refused it.
func (s *service) ask(ctx context.Context, url, model string) error {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_completion_tokens": 200,
		"messages": []map[string]string{{"role": "user", "content": "Why is the sky blue? Answer in a few sentences."}},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if problem := llmhttp.Classify(response); problem != nil {
		return problem
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("the answer is not whole: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// traceKey is the key of a call's trace in its context, in place of a tracing library.
type traceKey struct{}

func traceOf(ctx context.Context) prometheus.Labels {
	id, ok := ctx.Value(traceKey{}).(string)
	if !ok {
		return nil
	}
	return prometheus.Labels{"trace_id": id}
}
