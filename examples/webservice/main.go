// Webservice shows a service that streams a model's answers, gets no 429, and lets nobody wait
// long.
//
//	go run -C examples/webservice .
//
// Of 200 callers at once 60 pass; who does not fit the quota within two seconds gets 503 and
// Retry-After. What the service counted is compared with the log of a strict provider. The service
// is this file. With -serve :8080 it serves you, with the key in OPENAI_API_KEY.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	model     = "gpt-4o-mini"
	patience  = 2 * time.Second // how long a caller waits for room
	maxAnswer = 300             // tokens
	maxPrompt = 4 << 10         // bytes
)

// quota is the account's: look yours up at the provider.
var quota = ratelimit.ModelQuota{MaxRPM: 60, MaxTPM: 20_000}

func main() {
	serve := flag.String("serve", "", "`address` to serve at, with OPENAI_API_KEY (default: the demo)")
	state := flag.String("state", "", "`folder` that keeps the usage (default: in the user's cache folder)")
	short := flag.Bool("short", false, "the demo's first seconds only")
	flag.Parse()
	if err := demo.Run(func(ctx context.Context, out io.Writer) error {
		return run(ctx, *serve, *state, *short, out)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "webservice:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, folder string, short bool, out io.Writer) error {
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		folder = filepath.Join(cache, "go-ratelimit", "webservice")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if address == "" {
		return runDemo(ctx, folder, short, out)
	}
	s, err := newService(folder, func(e llmhttp.Event) {
		if e.Kind == llmhttp.EventProblem {
			log.Print("provider: ", e.Problem)
		}
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, s.close())
	}
	return errors.Join(s.serve(ctx, listener), s.close())
}

// service answers questions within the quota.
type service struct {
	limiter *ratelimit.RateLimiter
	client  openai.Client
}

// newService returns a service that remembers its usage in folder, so that a restart does not
// forget what the provider still counts. The caller must close it.
func newService(folder string, onEvent func(llmhttp.Event), options ...option.RequestOption) (*service, error) {
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:        map[string]ratelimit.ModelQuota{model: quota},
		MatchVersions: true, // gpt-4o-mini-2024-07-18 counts as gpt-4o-mini
		LearnQuotas:   true, // the provider's headers may lower the quota
		FilePath:      filepath.Join(folder, "usage.yaml"),
		AutoPersist:   ratelimit.AutoPersist{Delay: 250 * time.Millisecond, MaxWait: time.Second},
		OnError:       func(err error) { log.Print("limiter: ", err) },
	})
	if err != nil {
		return nil, err
	}
	hc := &http.Client{Transport: &llmhttp.Transport{
		Limiter:        limiter,
		MaxWait:        patience,
		AddStreamUsage: true, // streams end with what they used
		OnEvent:        onEvent,
	}}
	options = append([]option.RequestOption{option.WithHTTPClient(hc)}, options...)
	return &service{limiter, openai.NewClient(options...)}, nil
}

// close saves the usage.
func (s *service) close() error { return s.limiter.Close() }

// serve serves until ctx ends. Then it takes no new callers, and lets those finish that it has.
func (s *service) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ask", s.ask)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// ask streams the model's answer to the question q.
func (s *service) ask(w http.ResponseWriter, r *http.Request) {
	question := r.FormValue("q")
	if question == "" || len(question) > maxPrompt {
		http.Error(w, fmt.Sprintf("q must have 1 to %d bytes", maxPrompt), http.StatusBadRequest)
		return
	}
	stream := s.client.Chat.Completions.NewStreaming(r.Context(), openai.ChatCompletionNewParams{
		Model:               model,
		MaxCompletionTokens: openai.Int(maxAnswer),
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	})
	defer stream.Close()
	sent := false
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if choice.Delta.Content == "" {
				continue
			}
			sent = true
			io.WriteString(w, choice.Delta.Content) // an error means that the caller has left,
			http.NewResponseController(w).Flush()   // which ends r.Context() and the stream
		}
	}
	switch err := stream.Err(); {
	case err == nil, r.Context().Err() != nil: // done, or the caller has left
	case sent:
		panic(http.ErrAbortHandler) // the caller must see that the answer is not whole
	default:
		refuse(w, err)
	}
}

// refuse tells a caller why there is no answer: 503 and when to come back if waiting helps.
func refuse(w http.ResponseWriter, err error) {
	problem, known := llmhttp.FromError(err)
	if !known {
		log.Print("ask: ", err)
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	switch problem.Kind {
	case llmhttp.NotSent, llmhttp.RateLimited, llmhttp.DailyQuota, llmhttp.Overloaded:
		if seconds := math.Ceil(problem.RetryAfter.Seconds()); seconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
		http.Error(w, "busy: try again later", http.StatusServiceUnavailable)
	default:
		log.Print("ask: ", problem)
		http.Error(w, "no answer", http.StatusBadGateway)
	}
}
