package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// concurrent is how many calls a process of the batch makes at the same time.
const concurrent = 32

// workBatch answers the prompts of a process's share that have no answer yet, until all have one
// or in ends: the parent closes it, or has died.
func workBatch(j job, in io.Reader, out io.Writer) (err error) {
	demo.LeaveEndToParent()
	ctx, fail := context.WithCancelCause(context.Background())
	go func() {
		io.Copy(io.Discard, in)
		fail(nil)
	}()
	done, err := readDone(j.donePath())
	if err != nil {
		return err
	}
	file, err := os.OpenFile(j.donePath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open progress: %w", err)
	}
	defer file.Close()
	// The quota is in the database: the parent has written it.
	limiter, err := ratelimit.NewWithSQLiteConfig(j.db, ratelimit.Config{
		Shared:  true,
		OnError: func(err error) { complain(j, err) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limiter.Close()) }()
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: limiter, OnEvent: func(e llmhttp.Event) {
		if err := tellCall(j, e, out); err != nil {
			fail(err)
		}
	}}}

	queue := make(chan int)
	var all sync.WaitGroup
	for range concurrent {
		all.Go(func() {
			for id := range queue {
				err := answerPrompt(ctx, client, j.url, id)
				if err == nil {
					_, err = fmt.Fprintf(file, "%d\n", id)
				}
				if err != nil {
					fail(err)
				}
			}
		})
	}
	j.share(ctx, done, queue)
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// share queues the prompts of a process's share that have no answer, and closes the queue.
func (j job) share(ctx context.Context, done map[int]bool, queue chan<- int) {
	defer close(queue)
	for id := j.worker - 1; id < j.prompts && ctx.Err() == nil; id += j.workers {
		if done[id] {
			continue
		}
		select {
		case queue <- id:
		case <-ctx.Done():
		}
	}
}

// tellCall tells the parent of a call, before it is sent and once it is settled. The parent
// compares that with the server's log.
func tellCall(j job, e llmhttp.Event, out io.Writer) error {
	told := event{Worker: j.worker, PID: os.Getpid()}
	switch e.Kind {
	case llmhttp.EventAdmitted:
	case llmhttp.EventSettled:
		told.Done, told.Tokens = true, e.Settled.PromptTokens+e.Settled.OutputTokens
	default:
		return nil
	}
	return told.write(out)
}

// answerPrompt gets the answer to a prompt. That it may have to wait is the client's business.
func answerPrompt(ctx context.Context, client *http.Client, url string, id int) error {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_completion_tokens": 200,
		"messages": []map[string]string{{"role": "user", "content": fmt.Sprintf("Summarize document %d in a paragraph.", id)}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("prompt %d: %w", id, err)
	}
	defer resp.Body.Close()
	if problem := llmhttp.Classify(resp); problem != nil {
		return fmt.Errorf("prompt %d: %w", id, problem)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("prompt %d: %w", id, err)
	}
	return nil
}

// readDone returns the prompts that have an answer. A last line without its end was cut off by
// a kill.
func readDone(path string) (map[int]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	done := make(map[int]bool)
	for line := range strings.Lines(string(text)) {
		if id, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
			done[id] = true
		}
	}
	return done, nil
}
