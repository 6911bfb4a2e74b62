package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// server is a real server whose handler is behind a Handler that holds tokens, and one that
// notes what was charged.
type server struct {
	*httptest.Server
	lim    *keyed.Limiter
	tokens keyed.Request
}

// newServer starts a server for HTTP/1 or HTTP/2. When the test ends, it must leave no goroutine.
func newServer(t *testing.T, http2 bool, next http.HandlerFunc) *server {
	before := runtime.NumGoroutine()
	s := &server{lim: newLimiter(t), tokens: perMinute("tokens", 1000)}
	s.tokens.Cost = estimate
	s.Server = httptest.NewUnstartedServer(httplimit.Handler(next, httplimit.Options{
		Limiter: s.lim, Limits: all(s.tokens), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
		Key:      func(*http.Request) string { return "a" },
		InFlight: func(string) int { return 100 },
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.Client().CloseIdleConnections()
		s.Close()
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
	return s
}

// charged returns what is charged once nothing is on hold, which a client may see a little later.
func (s *server) charged(t *testing.T) int {
	t.Helper()
	n := -1
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n = used(t, s.lim, "a", s.tokens); n != estimate {
			break
		}
	}
	return n
}

// eachProtocol runs a test over HTTP/1 and over HTTP/2.
func eachProtocol(t *testing.T, test func(t *testing.T, http2 bool)) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP%d", map[bool]int{false: 1, true: 2}[http2]), func(t *testing.T) { test(t, http2) })
	}
}

func TestStreamsArriveAsTheyAreFlushed(t *testing.T) {
	flushes := map[string]func(http.ResponseWriter) error{
		"Flusher":    func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"controller": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	}
	eachProtocol(t, func(t *testing.T, http2 bool) {
		for name, flush := range flushes {
			t.Run(name, func(t *testing.T) {
				next := make(chan string)
				s := newServer(t, http2, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for event := range next {
						io.WriteString(w, event)
						if err := flush(w); err != nil {
							t.Error(err)
						}
					}
				})
				go func() { next <- ": hello\n\n" }()
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				lines := bufio.NewReader(resp.Body)
				for _, event := range []string{": hello\n\n", "data: {\"usage\":{\"prompt_tokens\":7}}\n\n"} {
					if event[0] == 'd' {
						next <- event
					}
					got, err := lines.ReadString('\n') // while the handler waits
					if err != nil || got != event[:len(event)-1] {
						t.Errorf("%q, %v", got, err)
					}
					lines.ReadString('\n')
				}
				close(next)
				if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
					t.Errorf("%q, %v", rest, err)
				}
				if n := s.charged(t); n != 7 || resp.Header.Get("RateLimit") == "" {
					t.Errorf("charged %d, %v", n, resp.Header)
				}
			})
		}
	})
}

// The client gets each byte and each field of the next handler as it would without a Handler.
func TestResponsesAreUntouched(t *testing.T) {
	large := strings.Repeat("large ", 100_000)
	handlers := map[string]http.HandlerFunc{
		"nothing":      func(http.ResponseWriter, *http.Request) {},
		"guessed type": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"WriteString":  answer(418, "text/plain", "short and stout"),
		"large":        answer(200, "application/json", large),
		"no content":   answer(204, "", ""),
		"known length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			w.Write([]byte("ok"))
		},
		"an empty write": func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) },
		"its own fields": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("RateLimit", "mine")
			w.Header().Del("RateLimit-Policy")
			w.Header()["X-Two"] = []string{"1", "2"}
			w.WriteHeader(201)
			w.WriteHeader(500)
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Declared")
			io.WriteString(w, "body")
			w.Header().Set("X-Declared", "1")
			w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		},
		"ReadFrom": func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, onlyReader{strings.NewReader(large)}) },
		"ReadFrom nothing": func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, onlyReader{strings.NewReader("")})
			w.WriteHeader(404)
		},
		"ReadFrom plain": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.Copy(w, onlyReader{strings.NewReader(large)})
		},
		"ServeContent": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Unix(1, 0), strings.NewReader(large))
		},
		"echo of the body": func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) },
		"a broken response": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.Write([]byte("half"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"without a body read": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusRequestEntityTooLarge) },
	}
	eachProtocol(t, func(t *testing.T, http2 bool) {
		for name, next := range handlers {
			t.Run(name, func(t *testing.T) {
				s := newServer(t, http2, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/inner" {
						for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
							w.Header().Del(field) // the rest must be equal
						}
					}
					next(w, r)
				})
				bare := httptest.NewUnstartedServer(next)
				bare.Config.ErrorLog = s.Config.ErrorLog
				if bare.EnableHTTP2 = http2; http2 {
					bare.StartTLS()
				} else {
					bare.Start()
				}
				defer bare.Close()
				want := dump(t, bare, "/")
				if got := dump(t, s.Server, "/inner"); got != want {
					t.Errorf("%.500s\nwant\n%.500s", got, want)
				}
			})
		}
	})
}

// onlyReader hides WriteTo, which io.Copy prefers.
type onlyReader struct{ io.Reader }

// dump returns all that a client sees of a response but for the date.
func dump(t *testing.T, s *httptest.Server, path string) string {
	resp, err := s.Client().Post(s.URL+path, "text/plain", strings.NewReader(strings.Repeat("request ", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		err = errors.New("broken")
	}
	resp.Header.Del("Date")
	return fmt.Sprintf("%s %v %v %d %v\n%s", resp.Status, resp.Header, resp.Trailer, resp.ContentLength, err, body)
}

func TestInformationalResponses(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		s := newServer(t, http2, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, completion)
		})
		var early []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				early = append(early, code)
				if h.Get("Link") == "" {
					t.Error("no Link")
				}
				return nil
			},
		})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != completion || len(early) != 1 || early[0] != 103 || resp.StatusCode != 200 {
			t.Errorf("%v, then %d %q, %v", early, resp.StatusCode, body, err)
		}
		if n := s.charged(t); n != 25 {
			t.Errorf("charged %d", n)
		}
	})
}

func TestHijack(t *testing.T) {
	hijacks := map[string]func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error){
		"Hijacker": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) { return w.(http.Hijacker).Hijack() },
		"controller": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			return http.NewResponseController(w).Hijack()
		},
	}
	for name, hijack := range hijacks {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, false, func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := hijack(w)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				rw.Flush()
				line, err := rw.ReadString('\n')
				rw.WriteString("echo " + line)
				if err := errors.Join(err, rw.Flush()); err != nil {
					t.Error(err)
				}
			})
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
			all, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 101 ") || !strings.HasSuffix(string(all), "\r\n\r\necho hello\n") {
				t.Errorf("%q, %v", all, err)
			}
			if n := used(t, s.lim, "a", s.tokens); n != estimate {
				t.Errorf("charged %d", n)
			}
		})
	}
}

// The functions in Settle learn that a connection was hijacked, whatever the handler did then.
func TestHijackIsTold(t *testing.T) {
	var got httplimit.Response
	lim := newLimiter(t)
	tokens := perMinute("tokens", 1000)
	tokens.Cost = estimate
	done := make(chan bool)
	limited := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
		panic(http.ErrAbortHandler)
	}), httplimit.Options{
		Limiter: lim, Key: func(*http.Request) string { return "a" }, Limits: all(tokens),
		Settle: map[string]httplimit.Settle{"tokens": func(r httplimit.Response) (int, bool) {
			got = r
			return httplimit.Tokens(r)
		}},
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		limited.ServeHTTP(w, r)
	}))
	defer s.Close()
	if _, err := http.Get(s.URL); err == nil {
		t.Error("no error")
	}
	<-done
	if n := used(t, lim, "a", tokens); !got.Hijacked || !got.Panicked || got.Status != 0 || n != estimate {
		t.Errorf("%+v, charged %d", got, n)
	}
}

func TestResponseController(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		s := newServer(t, http2, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			fullDuplex := c.EnableFullDuplex()
			if http2 && errors.Is(fullDuplex, http.ErrNotSupported) {
				fullDuplex = nil // some versions of HTTP/2 have it always, and no method for it
			}
			if err := errors.Join(fullDuplex, c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Now().Add(-time.Second))); err != nil {
				t.Error(err)
			}
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
			if err := c.Flush(); err == nil {
				t.Error("no error after the deadline")
			}
		})
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%d bytes after the deadline", len(body))
		}
	})
}

// Each combination of the optional interfaces that a writer has is what the next handler sees.
func TestOptionalInterfaces(t *testing.T) {
	w := httptest.NewRecorder()
	var plain http.ResponseWriter = plainWriter{w}
	var (
		f http.Flusher
		h http.Hijacker
		p http.Pusher
	)
	// The bits of the index are Flusher, Hijacker and Pusher.
	for i, under := range []http.ResponseWriter{
		plain,
		struct {
			http.ResponseWriter
			http.Flusher
		}{plain, f},
		struct {
			http.ResponseWriter
			http.Hijacker
		}{plain, h},
		struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
		}{plain, f, h},
		struct {
			http.ResponseWriter
			http.Pusher
		}{plain, p},
		struct {
			http.ResponseWriter
			http.Flusher
			http.Pusher
		}{plain, f, p},
		struct {
			http.ResponseWriter
			http.Hijacker
			http.Pusher
		}{plain, h, p},
		struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
			http.Pusher
		}{plain, f, h, p},
	} {
		var seen http.ResponseWriter
		l := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seen = w }), httplimit.Options{
			Key: tenant, Limits: all(perMinute("tokens", 1000)), Settle: map[string]httplimit.Settle{"tokens": nil},
		})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Tenant", "a")
		l.ServeHTTP(under, r)
		_, flushes := seen.(http.Flusher)
		_, hijacks := seen.(http.Hijacker)
		_, pushes := seen.(http.Pusher)
		if flushes != (i&1 != 0) || hijacks != (i&2 != 0) || pushes != (i&4 != 0) {
			t.Errorf("combination %d: Flusher %v, Hijacker %v, Pusher %v", i, flushes, hijacks, pushes)
		}
		if u, ok := seen.(interface{ Unwrap() http.ResponseWriter }); !ok || u.Unwrap() != under {
			t.Errorf("combination %d: Unwrap", i)
		}
	}
}

// plainWriter is a writer without any optional interface.
type plainWriter struct{ http.ResponseWriter }

// Without limits on hold the next handler gets the writer of the server itself.
func TestTheWriterItself(t *testing.T) {
	w := httptest.NewRecorder()
	l := httplimit.Handler(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("%T", got)
		}
	}), httplimit.Options{
		Key: tenant, Limits: all(perMinute("requests", 1000)), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Tenant", "a")
	l.ServeHTTP(w, r)
}

func TestPush(t *testing.T) {
	pushed := ""
	under := pushingWriter{httptest.NewRecorder(), func(target string) error { pushed = target; return http.ErrNotSupported }}
	l := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := w.(http.Pusher).Push("/a.css", nil); !errors.Is(err, http.ErrNotSupported) {
			t.Error(err)
		}
	}), httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 1000)), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Tenant", "a")
	l.ServeHTTP(under, r)
	if pushed != "/a.css" {
		t.Errorf("pushed %q", pushed)
	}
}

type pushingWriter struct {
	*httptest.ResponseRecorder
	push func(string) error
}

func (p pushingWriter) Push(target string, _ *http.PushOptions) error { return p.push(target) }

// The handler of a client that has left ends, and what it held is charged.
func TestClientLeaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		ended := make(chan bool)
		s := newServer(t, http2, func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"usage\":{\"prompt_tokens\":7}}\n\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		leave()
		resp.Body.Close()
		<-ended
		if n := s.charged(t); n != 7 {
			t.Errorf("charged %d", n)
		}
	})
}

// Real clients at a real server: no more than the limit are served, at once or after each other.
func TestHammer(t *testing.T) {
	const clients, each, limit, atOnce = 16, 20, 150, 5
	eachProtocol(t, func(t *testing.T, http2 bool) {
		var mu sync.Mutex
		inside, most, served := 0, 0, 0
		lim := newLimiter(t)
		requests := keyed.Request{Namespace: "requests", Limit: limit, Window: 400 * 24 * time.Hour}
		tokens := keyed.Request{Namespace: "tokens", Limit: 1 << 30, Window: 400 * 24 * time.Hour, Cost: 1000}
		s := httptest.NewUnstartedServer(httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			inside++
			served++
			most = max(most, inside)
			mine := served
			mu.Unlock()
			defer func() { mu.Lock(); inside--; mu.Unlock() }()
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, completion)
			if mine%7 == 0 {
				panic(http.ErrAbortHandler)
			}
		}), httplimit.Options{
			Limiter: lim, Limits: all(requests, tokens), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
			Key:      func(*http.Request) string { return "a" },
			InFlight: func(string) int { return atOnce },
		}))
		if s.EnableHTTP2 = http2; http2 {
			s.StartTLS()
		} else {
			s.Start()
		}
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range each {
					resp, err := s.Client().Get(s.URL)
					if err != nil {
						continue
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		s.Close()
		if most > atOnce || served > limit || served == 0 {
			t.Errorf("%d served, %d at once", served, most)
		}
		r, n := used(t, lim, "a", requests), used(t, lim, "a", tokens)
		if r != int(served) || n != 25*r {
			t.Errorf("served %d, charged %d requests and %d tokens", served, r, n)
		}
	})
}
