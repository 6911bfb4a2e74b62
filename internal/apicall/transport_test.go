package apicall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The key goes to the address that it was meant for, and to no other.
func TestCountTokensFollowsNoRedirect(t *testing.T) {
	var seen atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		fmt.Fprint(w, `{"totalTokens":1}`)
	}))
	defer other.Close()
	var status int
	var location string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/again") {
			seen.Add(1)
		}
		w.Header().Set("Location", location)
		w.WriteHeader(status)
		io.WriteString(w, "moved")
	}))
	defer server.Close()
	asked := 0
	clients := map[string]*http.Client{
		"no client": nil,
		"client":    {},
		"client that follows": {CheckRedirect: func(*http.Request, []*http.Request) error {
			asked++
			return nil
		}},
	}
	for name, client := range clients {
		for _, status = range []int{301, 302, 303, 307, 308} {
			for _, location = range []string{other.URL + "/x", server.URL + "/again", "/again", ""} {
				counter := gemini{BaseURL: server.URL, APIKey: secretKey, Client: client}
				total, err := counter.CountTokens(t.Context(), "m", "x")
				if err == nil || total != 0 {
					t.Errorf("%s, %d to %q: got %d, %v", name, status, location, total, err)
					continue
				}
				if location != "" {
					wantKeyless(t, err, fmt.Sprintf("status %d: moved", status))
				}
			}
			location = "http://bad host/" + secretKey // which net/http quotes in its error
			counter := gemini{BaseURL: server.URL, APIKey: secretKey, Client: client}
			_, err := counter.CountTokens(t.Context(), "m", "x")
			wantKeyless(t, err)
		}
	}
	if seen.Load() != 0 || asked != 0 {
		t.Errorf("followed %d redirects, asked %d times", seen.Load(), asked)
	}
}

func TestCountTokensUsesTheClient(t *testing.T) {
	var cookie string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie = r.Header.Get("Cookie")
		fmt.Fprint(w, `{"totalTokens":7}`)
	}))
	defer server.Close()
	address, _ := url.Parse(server.URL)
	jar, _ := cookiejar.New(nil)
	jar.SetCookies(address, []*http.Cookie{{Name: "session", Value: "1"}})
	calls, redirects := 0, 0
	client := &http.Client{
		Jar:     jar,
		Timeout: time.Minute,
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			calls++
			return http.DefaultTransport.RoundTrip(r)
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			redirects++
			return nil
		},
	}
	counter := gemini{BaseURL: server.URL, APIKey: secretKey, Client: client}
	if total, err := counter.CountTokens(t.Context(), "m", "x"); err != nil || total != 7 {
		t.Fatalf("got %d, %v, want 7", total, err)
	}
	if cookie != "session=1" || calls != 1 {
		t.Errorf("cookie %q, %d calls, want the client's own jar and transport", cookie, calls)
	}
	if client.Jar != jar || client.Timeout != time.Minute || client.CheckRedirect(nil, nil) != nil || redirects != 1 {
		t.Error("the client was changed")
	}
}

// The client's time limit counts; without a client it is 30 seconds.
func TestCountTokensTimeLimit(t *testing.T) {
	never := roundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	previous := http.DefaultClient.Transport
	t.Cleanup(func() { http.DefaultClient.Transport = previous })
	http.DefaultClient.Transport = never
	for want, client := range map[time.Duration]*http.Client{
		30 * time.Second: nil,
		3 * time.Minute:  {Transport: never, Timeout: 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := gemini{APIKey: secretKey, Client: client}.CountTokens(t.Context(), "m", "x")
			wantKeyless(t, err)
			if took := time.Since(start); took != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v, want context.DeadlineExceeded after %v", took, err, want)
			}
		})
	}
}

// What a transport says is passed on, without the key.
func TestCountTokensTransportError(t *testing.T) {
	cause := errors.New("no route")
	_, err := countOver(func(*http.Request) (*http.Response, error) { return nil, cause })
	wantKeyless(t, err, "gemini-2.5-pro:countTokens", "no route")
	if !errors.Is(err, cause) {
		t.Errorf("error %v does not wrap its cause", err)
	}

	for _, cause := range []error{
		nil, context.Canceled, context.DeadlineExceeded,
	} {
		_, err := countOver(func(r *http.Request) (*http.Response, error) {
			if cause == nil {
				return nil, fmt.Errorf("refused %s of %v", r.Header.Get("x-goog-api-key"), r.Header)
			}
			return nil, fmt.Errorf("refused %s: %w", r.Header.Get("x-goog-api-key"), cause)
		})
		wantKeyless(t, err, "refused ***")
		if cause != nil && !errors.Is(err, cause) {
			t.Errorf("error %v does not match %v", err, cause)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			wantKeyless(t, e)
		}
	}

	_, err = countOver(replyingTo(200, failing(`{"totalTokens":1`, io.ErrUnexpectedEOF)))
	wantKeyless(t, err, "read reply: unexpected EOF")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v does not wrap its cause", err)
	}
	_, err = countOver(replyingTo(200, failing(`{"totalTokens":1}`, errors.New("reset, key "+secretKey))))
	wantKeyless(t, err, "read reply: reset, key ***")

	// A key with space around it arrives without, and comes back so.
	padded := gemini{APIKey: " " + secretKey + "\t", Client: &http.Client{
		Transport: replyingTo(403, strings.NewReader("bad key "+secretKey+".")),
	}}
	_, err = padded.CountTokens(t.Context(), "m", "x")
	wantKeyless(t, err, "status 403: bad key ***.")

	// Nobody listens there any more.
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = gemini{BaseURL: gone.URL, APIKey: secretKey}.CountTokens(t.Context(), "m", "x")
	var address *url.Error
	if wantKeyless(t, err); !errors.As(err, &address) {
		t.Errorf("error %v is no *url.Error", err)
	}
}

// A call ends when its context does, wherever it stands then, and says so even
// when net/http or the transport reports something else.
func TestCountTokensEndsWithItsContext(t *testing.T) {
	for _, stage := range []string{"before", "header", "body", "error body"} {
		for _, way := range []string{"cancel", "cancel with cause", "deadline"} {
			t.Run(stage+"/"+way, func(t *testing.T) {
				arrived := make(chan struct{}, 1)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					switch stage {
					case "body":
						io.WriteString(w, `{"totalTokens":`)
						w.(http.Flusher).Flush()
					case "error body":
						w.WriteHeader(500)
						io.WriteString(w, "the key is "+secretKey[:30])
						w.(http.Flusher).Flush()
					}
					arrived <- struct{}{}
					<-r.Context().Done()
				}))
				defer server.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				want := context.Canceled
				var cause error
				switch way {
				case "cancel with cause":
					cause = errors.New("operator went home with " + secretKey)
				case "deadline":
					want = context.DeadlineExceeded
					until := time.Now().Add(50 * time.Millisecond)
					if stage == "before" {
						until = time.Now()
					}
					var stop func()
					ctx, stop = context.WithDeadline(ctx, until)
					defer stop()
				}
				if way != "deadline" {
					if stage == "before" {
						cancel(cause)
					} else {
						go func() {
							<-arrived
							cancel(cause)
						}()
					}
				}
				counter := gemini{BaseURL: server.URL, APIKey: secretKey}
				total, err := counter.CountTokens(ctx, "m", "x")
				if wantKeyless(t, err); total != 0 || !errors.Is(err, want) {
					t.Errorf("got %d, %v, want %v", total, err, want)
				}
			})
		}
	}

	// A transport that reports the end in its own words.
	ctx, cancel := context.WithCancel(t.Context())
	counter := gemini{Client: &http.Client{
		Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, errors.New("interrupted")
		}),
	}}
	_, err := counter.CountTokens(ctx, "m", "x")
	if wantKeyless(t, err, "interrupted"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v is not context.Canceled", err)
	}
}

// Every text arrives whole, as JSON.
func TestCountTokensSendsTheText(t *testing.T) {
	var got struct {
		Contents []struct {
			Parts []struct{ Text string }
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Contents = nil
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"totalTokens":1}`)
	}))
	defer server.Close()
	for _, text := range []string{
		"", " ", "\x00\x01\x1f\x7f", "<b>&amp;</b>", `"\/`, "\u2028\u2029", "😀", strings.Repeat("long ", 1<<20),
	} {
		if _, err := (gemini{BaseURL: server.URL}).CountTokens(t.Context(), "m", text); err != nil {
			t.Fatal(err)
		}
		if len(got.Contents) != 1 || len(got.Contents[0].Parts) != 1 || got.Contents[0].Parts[0].Text != text {
			t.Errorf("%.40q arrived as %.80q", text, fmt.Sprint(got))
		}
	}
}

// Many goroutines share a counter.
func TestCountTokensConcurrently(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got struct {
			Contents []struct {
				Parts []struct{ Text string }
			}
		}
		json.NewDecoder(r.Body).Decode(&got)
		fmt.Fprintf(w, `{"totalTokens":%d}`, len(got.Contents[0].Parts[0].Text))
	}))
	defer server.Close()
	counter := gemini{BaseURL: server.URL, APIKey: secretKey, Client: server.Client()}
	t.Run("group", func(t *testing.T) {
		for i := range 20 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 5 {
					if total, err := counter.CountTokens(t.Context(), "m", strings.Repeat("x", i)); err != nil || total != i {
						t.Errorf("got %d, %v, want %d", total, err, i)
					}
				}
			})
		}
	})
}
