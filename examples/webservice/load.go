package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// load is callers of the service that all come at once. Those that get 503 come back when
// Retry-After says, up to tries in all.
type load struct {
	url            string
	callers, tries int

	mu      sync.Mutex
	c       counts
	decided chan struct{} // closed when each caller knows whether it gets an answer
}

// counts is what the callers have seen.
type counts struct {
	asking    int // without an answer so far
	streaming int // with a part of it
	away      int // until Retry-After is over
	whole     int // answers
	cut       int // answers that ended early
	failed    int // neither answer nor 503
	refused   int // times 503
	undecided int // callers whose last try is open

	retryMin, retryMax time.Duration // of Retry-After
	slowest            time.Duration // 503
	first              []time.Duration
}

func newLoad(url string, callers, tries int) *load {
	l := &load{url: url, callers: callers, tries: tries, decided: make(chan struct{})}
	l.c.undecided = callers
	return l
}

// run lets the callers call, and returns when all have ended. Once ctx ends none comes back.
func (l *load) run(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var all sync.WaitGroup
	for i := range l.callers {
		all.Go(func() {
			for try := 1; ; try++ {
				retry, again := l.ask(ctx, client, i, try == l.tries)
				if !again {
					return
				}
				select {
				case <-time.After(retry):
					l.update(func(c *counts) { c.away-- })
				case <-ctx.Done():
					l.update(func(c *counts) { c.away--; c.undecided-- })
					return
				}
			}
		})
	}
	all.Wait()
}

func (l *load) update(change func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.c.undecided
	change(&l.c)
	if before > 0 && l.c.undecided == 0 {
		close(l.decided)
	}
}

func (l *load) counts() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// ask makes one call and reads the answer to its end. After 503 it returns the time to wait,
// unless this was the last try. The end of ctx does not end the call: a service that stops is to
// finish it. But callers that it has not accepted yet then fail through no fault of its own.
func (l *load) ask(ctx context.Context, client *http.Client, caller int, last bool) (retry time.Duration, again bool) {
	began := time.Now()
	l.update(func(c *counts) { c.asking++ })
	question := fmt.Sprintf("I am caller %d. Explain in a few paragraphs why the sky is blue.", caller)
	resp, err := client.Get(l.url + "/ask?q=" + url.QueryEscape(question))
	if err != nil {
		l.update(func(c *counts) {
			c.asking--
			c.undecided--
			if ctx.Err() == nil {
				c.failed++
			}
		})
		return 0, false
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		l.update(func(c *counts) {
			c.asking--
			c.undecided--
			c.streaming++
			c.first = append(c.first, time.Since(began))
		})
		_, err := io.Copy(io.Discard, resp.Body)
		l.update(func(c *counts) {
			c.streaming--
			if err != nil {
				c.cut++
			} else {
				c.whole++
			}
		})
	case http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		retry = time.Duration(seconds) * time.Second
		again = !last && err == nil
		l.update(func(c *counts) {
			if c.refused == 0 {
				c.retryMin = retry
			}
			c.asking--
			c.refused++
			c.retryMin, c.retryMax = min(c.retryMin, retry), max(c.retryMax, retry)
			c.slowest = max(c.slowest, time.Since(began))
			if again {
				c.away++
			} else {
				c.undecided--
			}
		})
	default:
		l.update(func(c *counts) { c.asking--; c.undecided--; c.failed++ })
	}
	return retry, again
}
