package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"github.com/redis/go-redis/v9"
)

const (
	// machineArg is the argument of a process that is a machine.
	machineArg = "machine"
	// callers is how many goroutines of a machine call at once.
	callers = 8
	// margin covers the way to the provider. It is the same on all machines.
	margin = 250 * time.Millisecond
	// stateEvery is how often a machine tells its state.
	stateEvery = 200 * time.Millisecond
)

// job is what a machine is told: the first line of its standard input, since the URL of Redis may
// hold a password.
type job struct {
	Redis    string // URL
	Prefix   string // of the keys in Redis: the machines of one prefix share a quota
	Provider string // URL
	Quota    quota
}

// openLimiter returns a limiter that decides together with those of the other machines. The caller
// must close the limiter and then the client.
func openLimiter(ctx context.Context, j job, onError func(error)) (*ratelimit.RateLimiter, *redis.Client, error) {
	options, err := redis.ParseURL(j.Redis)
	if err != nil {
		return nil, nil, err
	}
	options.ContextTimeoutEnabled = true // so that no call waits longer for Redis than the store allows
	client := redis.NewClient(options)
	store, err := redisstore.New(ctx, client, redisstore.Options{Prefix: j.Prefix})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Store:    store,
		Quotas:   j.Quota.limits(),
		Margin:   margin,
		LeaseTTL: 2 * time.Second, // a dead machine holds nothing for longer
		OnError:  onError,
	})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return limiter, client, nil
}

// machine calls the provider as often as its limiter permits.
type machine struct {
	job     job
	limiter *ratelimit.RateLimiter
	client  *http.Client
	out     io.Writer // to the program that started it
}

// machineStatus runs a machine and returns its exit status.
func machineStatus() int {
	if err := runMachine(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		return 1
	}
	return 0
}

// runMachine calls until in ends: the program that started it closes it, or has died.
func runMachine(in io.Reader, out io.Writer) (err error) {
	demo.LeaveEndToParent()
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()
	m := &machine{job: j, out: out}
	limiter, redisClient, err := openLimiter(ctx, j, func(err error) {
		event{Kind: eventProblem, Text: err.Error()}.write(out) // a parent that is gone needs no news
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limiter.Close(), redisClient.Close()) }()
	m.limiter = limiter
	m.client = &http.Client{Transport: &llmhttp.Transport{Limiter: limiter, OnEvent: m.note}}
	return m.work(ctx)
}

// note tells of each call before it is sent, so that the program knows of it even if this machine
// is killed in the middle of it.
func (m *machine) note(e llmhttp.Event) {
	if e.Kind == llmhttp.EventAdmitted {
		event{Kind: eventSent}.write(m.out)
	}
}

// work calls from several goroutines until ctx ends, or the program has died.
func (m *machine) work(ctx context.Context) error {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				m.callOnce(ctx)
			}
		})
	}
	defer all.Wait()
	ticker := time.NewTicker(stateEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := m.tellState(); err != nil {
				return err
			}
		}
	}
}

func (m *machine) tellState() error {
	e := event{Kind: eventState}
	if err := m.limiter.Err(); err != nil {
		e.Text = err.Error()
	}
	stats := m.limiter.Stats(model)
	e.RPM, e.TPM = stats.RPM, stats.TPM
	return e.write(m.out)
}

// callOnce makes one call, as an SDK would: the client waits until the limiter has room.
func (m *machine) callOnce(ctx context.Context) {
	status, err := m.ask(ctx, "Explain in a few sentences why the sky is blue, and why it is red in the evening.")
	if ctx.Err() != nil {
		return // the run is over: the call was not sent, or nobody waits for its answer
	}
	event{Kind: eventEnded, Status: status}.write(m.out)
	if err != nil {
		select { // what fails is not to be tried as fast as possible
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// ask returns the status of the answer.
func (m *machine) ask(ctx context.Context, question string) (status int, err error) {
	body, err := json.Marshal(map[string]any{
		"model":                 model,
		"max_completion_tokens": maxAnswer,
		"messages":              []map[string]string{{"role": "user", "content": question}},
	})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.job.Provider+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := m.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
