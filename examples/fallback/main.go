// Fallback shows agents that use a second model while the quota of the first one is used up.
//
//	go run ./examples/fallback
//
// A step of an agent waits at most a second for the better model, and then takes the cheaper one;
// it does so, too, when the provider answers that it is overloaded. What you would copy is the
// function ask.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

const (
	better   = "gpt-4.1"
	cheaper  = "gpt-4.1-mini"
	patience = time.Second
	agents   = 12
	steps    = 5
)

var quotas = map[string]ratelimit.ModelQuota{
	better:  {MaxRPM: 30, MaxTPM: 20_000},
	cheaper: {MaxRPM: 100, MaxTPM: 60_000},
}

// ask asks the better model, and the cheaper one where there is no room for it in time or the
// provider is overloaded. It returns the model that has answered.
func ask(ctx context.Context, client *http.Client, url, question string) (answer, model string, err error) {
	answer, err = call(llmhttp.WithMaxWait(ctx, patience), client, url, better, question)
	if problem, ok := llmhttp.FromError(err); ok {
		switch problem.Kind {
		case llmhttp.NotSent, llmhttp.RateLimited, llmhttp.DailyQuota, llmhttp.Overloaded:
			answer, err = call(ctx, client, url, cheaper, question)
			return answer, cheaper, err
		}
	}
	return answer, better, err
}

// call makes one call. An error of the provider, or a refusal before the call was sent, is a
// [*llmhttp.Problem].
func call(ctx context.Context, client *http.Client, url, model, question string) (string, error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_completion_tokens": 300,
		"messages": []map[string]string{{"role": "user", "content": question}},
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if problem := llmhttp.Classify(resp); problem != nil {
		return "", problem
	}
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return "", fmt.Errorf("decode the answer: %w", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || len(reply.Choices) == 0 {
		return "", errors.Join(errors.New("the answer is not whole"), err)
	}
	return reply.Choices[0].Message.Content, nil
}

func main() {
	state := flag.String("state", "", "`folder` that keeps the usage and the server's log (default: in the user's cache folder)")
	flag.Parse()
	if err := demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, *state, out) }); err != nil {
		fmt.Fprintln(os.Stderr, "fallback:", err)
		os.Exit(1)
	}
}

// run starts the server, has the agents work, and compares both sides' counts.
func run(ctx context.Context, folder string, out io.Writer) (err error) {
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		folder = filepath.Join(cache, "go-ratelimit", "fallback")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	server, err := startServer(filepath.Join(folder, "server.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	usage := filepath.Join(folder, "usage.yaml")
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: quotas, FilePath: usage,
		AutoPersist: ratelimit.AutoPersist{Delay: 250 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	tally := newTally(rl)
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: rl, OnEvent: tally.event}}

	introduce(out)
	stopShowing := demo.NewProgress(out, demo.IsTerminal(out), tally.line).Start()
	var all sync.WaitGroup
	for agent := range agents {
		all.Go(func() {
			question := fmt.Sprintf("Agent %d: plan a small town.", agent)
			for range steps {
				answer, model, err := ask(ctx, client, server.URL+"/v1/chat/completions", question)
				if tally.step(model, err); err != nil {
					return
				}
				question = fmt.Sprintf("Agent %d: improve this plan: %.40s", agent, answer)
			}
		})
	}
	all.Wait()
	stopShowing()
	records, err := server.Records()
	err = errors.Join(err, rl.Close())
	if ctx.Err() == nil { // the run is whole: the next one begins with an empty minute on both sides
		server.Finish()
		err = errors.Join(err, os.Remove(usage))
	}
	return errors.Join(tally.report(out, records, server.Journal()), err)
}

// startServer starts a server that enforces the quotas, and is overloaded once.
func startServer(journal string) (*fakeprovider.Host, error) {
	models := make(map[string]fakeprovider.Config)
	for model, q := range quotas {
		models[model] = fakeprovider.Config{Limits: fakeprovider.Limits{fakeprovider.RPM: q.MaxRPM, fakeprovider.TPM: q.MaxTPM}}
	}
	var mu sync.Mutex
	asked := 0
	return fakeprovider.Listen(fakeprovider.New(fakeprovider.Options{
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay, a.Spread = 100*time.Millisecond, 300*time.Millisecond
			mu.Lock()
			defer mu.Unlock()
			if c.Model == better {
				if asked++; asked == overloadedCall {
					a.Status, a.Header = http.StatusServiceUnavailable, map[string]string{"Retry-After": "1"}
				}
			}
			return a
		},
	}, models), journal)
}

// overloadedCall is the call of the better model to which the server is overloaded.
const overloadedCall = 20
