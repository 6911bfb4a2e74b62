package llmhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

const authorization = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261125/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"

// signedPost makes a signed call of Nova.
func signedPost(ctx context.Context, t *testing.T, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm.test"+nova+"converse", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	return rt.RoundTrip(req)
}

// A signed call that cannot have its place within four minutes is refused at once, and says why.
// Others wait as they do without a signature.
func TestSignatureAge(t *testing.T) {
	for _, test := range []struct {
		name     string
		cooldown time.Duration // until there is room
		maxWait  time.Duration
		deadline time.Duration // of the context; zero for none
		bearer   bool
		want     error // nil for a call that is sent
	}{
		{"room in time", 3*time.Minute + 59*time.Second, 0, 0, false, nil},
		{"room too late", 4*time.Minute + time.Second, 0, 0, false, llmhttp.ErrSignatureAge},
		{"no signature", 4*time.Minute + time.Second, 0, 0, true, nil},
		{"a shorter MaxWait", 4*time.Minute + time.Second, time.Minute, 0, false, ratelimit.ErrMaxWait},
		{"a longer MaxWait", 4*time.Minute + time.Second, time.Hour, 0, false, llmhttp.ErrSignatureAge},
		{"a deadline before", 4*time.Minute + time.Second, 0, time.Minute, false, context.DeadlineExceeded},
		{"a deadline after", 4*time.Minute + time.Second, 0, time.Hour, false, llmhttp.ErrSignatureAge},
	} {
		for _, asError := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxRPM: 10}}})
					defer rl.Close()
					rl.CooldownFor(novaModel, test.cooldown, ratelimit.CauseRateLimited)
					tr := &llmhttp.Transport{Limiter: rl, MaxWait: test.maxWait, RefuseWithError: asError, Base: reply(200, `{"usage":{"inputTokens":1,"outputTokens":1}}`)}
					ctx := t.Context()
					if test.deadline > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, test.deadline)
						defer cancel()
					}
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm.test"+nova+"converse", strings.NewReader(`{}`))
					req.Header.Set("Authorization", authorization)
					if test.bearer {
						req.Header.Set("Authorization", "Bearer abc")
					}
					began := time.Now()
					resp, err := tr.RoundTrip(req)
					waited := time.Since(began)
					if test.want == nil {
						if err != nil || resp.StatusCode != 200 || waited < test.cooldown {
							t.Fatalf("after %v: %v", waited, err)
						}
						readAll(t, resp)
						return
					}
					if waited > 0 {
						t.Errorf("waited %v in vain", waited)
					}
					var p *llmhttp.Problem
					if asError {
						if !errors.Is(err, test.want) {
							t.Errorf("refused with %v", err)
						}
						p, _ = llmhttp.FromError(err)
					} else {
						p = llmhttp.Classify(resp)
						if text := readAll(t, resp); test.want == llmhttp.ErrSignatureAge && !strings.Contains(text, "signature_age") {
							t.Errorf("refused with %s", text)
						} else if from, ok := llmhttp.FromError(errors.New(text)); !ok || !errors.Is(from, test.want) {
							t.Errorf("found %v in %s", from, text)
						}
					}
					if p == nil || !errors.Is(p, test.want) || p.Kind != llmhttp.NotSent {
						t.Errorf("told %v", p)
					}
				})
			})
		}
	}
}

// The four minutes are those of the call, not of each of its tries: a retry may wait for what is
// left of them, and a retry after them is not made.
func TestSignatureAgeWithRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxRPM: 100}}})
		defer rl.Close()
		began := time.Now()
		var sent []time.Duration
		tr := &llmhttp.Transport{Limiter: rl, Retry: llmhttp.Retry{Max: 10, MaxDelay: time.Hour}, Base: base(func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			sent = append(sent, time.Since(began))
			return response(req, 429, `{"message":"Too many tokens"}`, "Retry-After: 70", "X-Amzn-Errortype: ThrottlingException"), nil
		})}
		resp, err := signedPost(t.Context(), t, tr)
		if err != nil || resp.StatusCode != 429 {
			t.Fatal(resp, err)
		}
		if p := llmhttp.Classify(resp); p.Kind != llmhttp.RateLimited {
			t.Errorf("the caller gets %v", p)
		}
		readAll(t, resp)
		if len(sent) != 4 || sent[3] > 4*time.Minute || time.Since(began) > 4*time.Minute {
			t.Errorf("sent at %v, ended after %v", sent, time.Since(began))
		}
	})
}

// Nothing of a signed request is changed.
func TestSignedIsUnchanged(t *testing.T) {
	const body = `{"model":"m","stream":true}`
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
	for _, sign := range []bool{false, true} {
		var sent string
		tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Base: base(func(req *http.Request) (*http.Response, error) {
			got, _ := io.ReadAll(req.Body)
			sent = string(got)
			return response(req, 200, "{}"), nil
		})}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, chatURL, strings.NewReader(body))
		if sign {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if (sent == body) != sign {
			t.Errorf("signed %t: sent %s", sign, sent)
		}
	}
}

// Some SDKs have a GetBody that winds the one reader back that is also the body: Anthropic's for
// Bedrock and for Vertex. The whole body is sent all the same, also after it was counted, and
// again.
func TestSharedReader(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hello, hello, hello, hello"}]}`
	for _, url := range []string{
		"http://llm.test" + nova + "invoke", "http://llm.test/v1/messages",
		"http://llm.test/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
	} {
		for _, countAbove := range []int{0, 1} {
			checkSharedReader(t, url, body, countAbove)
		}
	}
}

func checkSharedReader(t *testing.T, url, body string, countAbove int) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100}}})
	var sent []string
	synctest.Test(t, func(t *testing.T) {
		tr := &llmhttp.Transport{Limiter: rl, CountAbove: countAbove, Retry: llmhttp.Retry{Max: 1}, Base: base(func(req *http.Request) (*http.Response, error) {
			got, _ := io.ReadAll(req.Body)
			if strings.HasSuffix(req.URL.Path, "count_tokens") || strings.Contains(req.URL.Path, "count-tokens") {
				return response(req, 200, `{"input_tokens":9}`), nil
			}
			sent = append(sent, string(got))
			if len(sent) == 1 {
				return response(req, 500, "{}"), nil
			}
			return response(req, 200, "{}"), nil
		})}
		reader := bytes.NewReader([]byte(body))
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.NopCloser(reader))
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) {
			_, err := reader.Seek(0, io.SeekStart)
			return io.NopCloser(reader), err
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	})
	if len(sent) != 2 || sent[0] != body || sent[1] != body {
		t.Errorf("%s, CountAbove %d: sent %q", url, countAbove, sent)
	}
}
