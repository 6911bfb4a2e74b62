package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// service answers people, and works through a batch with what they leave.
type service struct {
	limiter *ratelimit.RateLimiter
	plain   *http.Client // of people's calls, which ask for room by themselves
	limited *http.Client // of the batch, as an SDK would have it
	url     string

	server *fakeprovider.Server
	host   *host
	began  time.Time
	until  time.Time

	mu     sync.Mutex
	people map[string]int  // answered, by model
	waits  []time.Duration // of people
	batch  int             // calls of the batch that were answered
	failed int
	err    error // the first one
}

// newService starts a service and its server.
func newService(cfg config, folder string, classes map[string]ratelimit.Class) (*service, error) {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: quotas, Classes: classes, FilePath: filepath.Join(folder, "usage.yaml"),
	})
	if err != nil {
		return nil, err
	}
	models := make(map[string]fakeprovider.Config)
	for model, q := range quotas {
		models[model] = fakeprovider.Config{Limits: fakeprovider.Limits{fakeprovider.RPM: q.MaxRPM}}
	}
	server := fakeprovider.New(fakeprovider.Options{Seed: cfg.seed, Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
		a := fakeprovider.DefaultAnswer(c)
		a.Delay, a.Spread = 200*time.Millisecond, 400*time.Millisecond
		return a
	}}, models)
	h, err := cfg.host(server)
	if err != nil {
		return nil, errors.Join(err, rl.Close())
	}
	return &service{
		limiter: rl, server: server, host: h, url: h.url + "/v1/chat/completions",
		plain:   &http.Client{Transport: h.transport},
		limited: &http.Client{Transport: &llmhttp.Transport{Limiter: rl, Base: h.transport}},
		people:  make(map[string]int),
	}, nil
}

func (s *service) close() {
	s.host.stop()
	s.limiter.Close()
}

// run has the people come and the batch work, until the time is over.
func (s *service) run(ctx context.Context, cfg config) {
	s.mu.Lock()
	s.began = time.Now()
	s.until = s.began.Add(cfg.length)
	s.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	for worker := range workers {
		all.Go(func() {
			for page := 0; s.work(ctx, fmt.Sprintf("Translate page %d of book %d.", page, worker)); page++ {
			}
		})
	}
	for i, at := range cfg.arrivals() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(s.began.Add(at))):
		}
		all.Go(func() { s.answer(ctx, fmt.Sprintf("Person %d: where is the key?", i)) })
	}
}

// ask asks the primary model, and the fallback where the primary has no room within the patience of
// a person. It returns the model that was asked, and how long that took to have room.
func (s *service) ask(ctx context.Context, question string) (model string, waited time.Duration, err error) {
	ctx = ratelimit.WithClass(ctx, "person")
	began := time.Now()
	room, err := s.limiter.AcquireAny(ctx, ratelimit.AnyOptions{Patience: patience},
		ratelimit.Request{Model: primary}, ratelimit.Request{Model: fallback})
	if err != nil {
		return "", 0, err
	}
	waited = time.Since(began)
	used, err := s.chat(ctx, s.plain, room.Model(), question, room.Arrived)
	room.Commit(used.Prompt, used.Output)
	return room.Model(), waited, err
}

// work makes one call of the batch, and reports whether to go on. Its class is in the context, so
// this would be the same with an SDK.
func (s *service) work(ctx context.Context, task string) bool {
	left := time.Until(s.until)
	if left <= 0 || ctx.Err() != nil {
		return false
	}
	ctx = llmhttp.WithMaxWait(ratelimit.WithClass(ctx, "batch"), left)
	_, err := s.chat(ctx, s.limited, primary, task, nil)
	if problem, ok := llmhttp.FromError(err); ok && problem.Kind == llmhttp.NotSent {
		return false // there is no room before the end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		s.err = errors.Join(s.err, err)
		return false
	}
	s.batch++
	return true
}

// chat makes one call. It calls arrived when the head of the answer is there; nil does not.
func (s *service) chat(ctx context.Context, client *http.Client, model, text string, arrived func(time.Time)) (used llmhttp.Usage, err error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_completion_tokens": 300,
		"messages": []map[string]string{{"role": "user", "content": text}},
	})
	if err != nil {
		return used, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return used, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return used, err
	}
	defer resp.Body.Close()
	if arrived != nil {
		arrived(time.Now())
	}
	if problem := llmhttp.Classify(resp); problem != nil {
		return used, problem
	}
	var reply struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return used, fmt.Errorf("decode the answer: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return llmhttp.Usage{Prompt: reply.Usage.Prompt, Output: reply.Usage.Output}, err
}

// answer asks for a person, and counts how that went.
func (s *service) answer(ctx context.Context, question string) {
	model, waited, err := s.ask(ctx, question)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		s.err = errors.Join(s.err, err)
		return
	}
	s.people[model]++
	s.waits = append(s.waits, waited)
}
