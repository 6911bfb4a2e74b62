// Sdk shows the SDKs of OpenAI, Anthropic and Google on one http.Client that waits.
//
//	go run -C examples/sdk .
//
// The provider is a strict local server, whose counts are compared with ours at the end. With
// -without there is no limiter, and calls fail. With -real it calls the providers whose keys are in
// OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// provider is the endpoint of an SDK.
type provider struct {
	name, url, key, model string
	ask                   func(context.Context, *http.Client, provider, string) (string, error)
	counts                string // which tokens count to its limits
}

// config holds the flags.
type config struct {
	calls         int
	rpm           int
	without, real bool
}

func main() {
	cfg := config{rpm: 20}
	flag.IntVar(&cfg.calls, "calls", 25, "calls of each SDK")
	flag.BoolVar(&cfg.without, "without", false, "call without the limiter, to see what happens")
	flag.BoolVar(&cfg.real, "real", false, "call the real providers")
	flag.Parse()
	if err := demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) }); err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config, out io.Writer) error {
	providers := []provider{
		{"OpenAI", "https://api.openai.com", os.Getenv("OPENAI_API_KEY"), "gpt-4o-mini", askOpenAI, "prompt and output"},
		{"Anthropic", "https://api.anthropic.com", os.Getenv("ANTHROPIC_API_KEY"), "claude-haiku-4-5", askAnthropic, "prompt and output"},
		{"Gemini", "https://generativelanguage.googleapis.com", os.Getenv("GEMINI_API_KEY"), "gemini-2.5-flash", askGemini, "the prompt only, as Gemini's limit does"},
	}
	var server *fakeprovider.Server
	if !cfg.real {
		server = fakeprovider.New(fakeprovider.Options{}, map[string]fakeprovider.Config{
			"": {Limits: fakeprovider.Limits{fakeprovider.RPM: cfg.rpm}},
		})
		local := httptest.NewServer(server)
		defer local.Close()
		for i := range providers {
			providers[i].url, providers[i].key = local.URL, "none"
		}
	}

	// This is all that a program has to do.
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:   map[string]ratelimit.ModelQuota{"*": {MaxRPM: cfg.rpm}},
		FilePath: filepath.Join(os.TempDir(), "go-ratelimit-sdk.yaml"), // nothing is saved there
	})
	if err != nil {
		return err
	}
	defer rl.Close()
	hc := llmhttp.NewClient(rl)

	// The rest counts and shows.
	b := newBoard(cfg, server, providers)
	hc.Transport.(*llmhttp.Transport).OnEvent = b.event
	hc.Transport.(*llmhttp.Transport).Base = b
	if cfg.without {
		hc.Transport = b
	}
	b.introduce(out)
	stopShowing := demo.NewProgress(out, demo.IsTerminal(out), b.line).Start()
	var wg sync.WaitGroup
	for _, p := range providers {
		if p.key == "" {
			continue
		}
		for i := range cfg.calls {
			wg.Go(func() {
				_, err := p.ask(ctx, hc, p, fmt.Sprintf("What is %d times %d?", i, i))
				b.ended(p.model, err)
			})
		}
	}
	wg.Wait()
	took := time.Since(b.began)
	stopShowing()
	return b.report(out, took)
}
