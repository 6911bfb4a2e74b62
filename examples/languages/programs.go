package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

//go:embed client.py
var pythonScript string

//go:embed client.mjs
var nodeScript string

// tally is what one program has to tell at its end.
type tally struct {
	name       string
	missing    string // why it did not run
	Calls      int    `json:"calls"`
	RetryAfter int    `json:"retry_after"` // seconds until there is room again, as it was told
	Error      string `json:"error"`
}

// together runs the programs at the same time.
func together(ctx context.Context, programs ...func() tally) []tally {
	tallies := make([]tally, len(programs))
	var all sync.WaitGroup
	for i, program := range programs {
		all.Go(func() { tallies[i] = program() })
	}
	all.Wait()
	return tallies
}

// script runs a script in another language, which reads where it should call from its environment,
// as the libraries of providers do.
func script(ctx context.Context, name, text, url string, command ...string) tally {
	t := tally{name: name}
	if _, err := exec.LookPath(command[0]); err != nil {
		t.missing = "there is no " + command[0] + " on this machine"
		return t
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY=sk-of-the-script",
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	cmd.WaitDelay = time.Second
	var said strings.Builder
	cmd.Stderr = &said
	output, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(output, &t)
	}
	if err != nil {
		t.Error = fmt.Sprintf("%v: %s", err, said.String())
	}
	return t
}

// goProgram calls the server directly, with the library, which keeps the quota in the proxy's file.
func goProgram(ctx context.Context, url, db string) tally {
	t := tally{name: "Go"}
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Backend: "sqlite", FilePath: db, Shared: true,
		Quotas: map[string]ratelimit.ModelQuota{"*": quota},
	})
	if err != nil {
		t.Error = err.Error()
		return t
	}
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: limiter}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for number := range 100 {
				err := call(llmhttp.WithMaxWait(ctx, patience), client, url, fmt.Sprintf("Go asks: %d.%d", worker, number))
				problem, refused := llmhttp.FromError(err)
				refused = refused && problem.Kind == llmhttp.NotSent
				if refused && problem.RetryAfter == 0 { // no slot is free
					time.Sleep(time.Second)
					continue
				}
				mu.Lock()
				switch {
				case err == nil:
					t.Calls++
				case refused: // the minute is used up
					t.RetryAfter = int(problem.RetryAfter.Seconds())
				default:
					t.Error = err.Error()
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if err := limiter.Close(); err != nil {
		t.Error = err.Error()
	}
	return t
}

// call makes one call.
func call(ctx context.Context, client *http.Client, url, question string) error {
	body := fmt.Sprintf(`{"model": %q, "max_tokens": 50, "messages": [{"role": "user", "content": %q}]}`, model, question)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if problem := llmhttp.Classify(resp); problem != nil {
		return problem
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// build builds the proxy, and returns its path.
func build(ctx context.Context, folder string) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("look for the repository: %w", err)
	}
	source := filepath.Join(filepath.Dir(strings.TrimSpace(string(output))), "cmd", "ratelimit")
	if _, err := os.Stat(source); err != nil {
		return "", errors.New("cmd/ratelimit is not here: start this inside the repository, or name the program with -proxy")
	}
	program := filepath.Join(folder, "ratelimit.exe") // Windows wants a name like this
	cmd := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", program, ".")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes its temporary files
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the proxy: %w\n%s", err, output)
	}
	return program, nil
}
