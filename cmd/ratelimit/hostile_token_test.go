package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	aliceToken = "alice-token-0123456789"
	bobToken   = "bob-token-9876543210"
)

// noSecret fails where a text tells a token or a key.
func noSecret(t testing.TB, what, text string) {
	t.Helper()
	for _, secret := range []string{"token-0123", "token-9876", "sk-real", "sk-own"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells %s:\n%s", what, secret, text)
		}
	}
}

// A token is taken in its own header, and in place of a key only where the upstream's key goes in
// its place. It never goes upstream, and is never told.
func TestHostileTokens(t *testing.T) {
	u := provider(t, nil)
	tokens := tokenFile(t, "alice "+aliceToken+"\nbob,"+bobToken+",batch,flow\n")
	p := startWith(t, []string{"REAL=sk-real"}, "--token-file", tokens, "--key-env", "keyed=REAL",
		"--upstream", "keyed="+u.URL, "--upstream", "plain="+u.URL, "--rpm", "1000")
	for _, test := range []struct {
		headers      string
		query        string
		keyed, plain int
	}{
		{"Accept: */*", "", 401, 401},
		{"X-Ratelimit-Token: " + aliceToken, "", 200, 200},
		{"x-ratelimit-token:\t " + bobToken + " \t", "", 200, 200},
		{"X-Ratelimit-Token: " + aliceToken + "\r\nAuthorization: Bearer sk-own", "", 200, 200},
		{"X-Ratelimit-Token: " + aliceToken + "\r\nConnection: X-Ratelimit-Token, Authorization, X-Api-Key", "", 200, 200},
		{"X-Ratelimit-Token: " + aliceToken + "\r\nX-Ratelimit-Token: " + bobToken, "", 401, 401},
		{"X-Ratelimit-Token: " + aliceToken + "\r\nX-Ratelimit-Token: wrong", "", 401, 401},
		{"X-Ratelimit-Token: " + aliceToken[:20], "", 401, 401},
		{"X-Ratelimit-Token: " + aliceToken + "0", "", 401, 401},
		{"X-Ratelimit-Token: " + strings.ToUpper(aliceToken), "", 401, 401},
		{"X-Ratelimit-Token: alice " + aliceToken, "", 401, 401},
		{"X-Ratelimit-Token: Bearer " + aliceToken, "", 401, 401},
		{"X-Ratelimit-Token: " + aliceToken + "," + bobToken, "", 401, 401},
		{"X-Ratelimit-Token: wrong\r\nAuthorization: Bearer " + aliceToken, "", 401, 401},
		{"X_Ratelimit_Token: wrong", "", 401, 401},
		{"Authorization: Bearer " + aliceToken, "", 200, 401},
		{"Authorization: bearer  " + aliceToken, "", 200, 401},
		{"Authorization: " + aliceToken, "", 401, 401},
		{"Authorization: Bearer sk-own\r\nX-Api-Key: " + aliceToken, "", 401, 401},
		{"X-Api-Key: " + aliceToken, "", 200, 401},
		{"Api-Key: " + aliceToken, "", 200, 401},
		{"X-Goog-Api-Key: " + aliceToken, "", 200, 401},
		{"Accept: */*", "?key=" + aliceToken, 200, 401},
		{"Accept: */*", "?alt=sse&key=" + strings.Replace(aliceToken, "-", "%2d", 1) + "&key=" + bobToken, 200, 401},
		{"X-Ratelimit-Token: " + aliceToken + "\r\nX-Api-Key: " + bobToken + "\r\nAuthorization: Bearer " + aliceToken, "?key=" + bobToken, 200, 200},
	} {
		for path, want := range map[string]int{"/keyed": test.keyed, "/plain": test.plain} {
			before := len(u.requests())
			status, answer := wire(t, p.url, raw("POST", path+"/v1/chat/completions"+test.query, chat("m"), test.headers))
			came := u.requests()[before:]
			if status != want || (len(came) == 1) != (want == 200) {
				t.Errorf("%s %s%s: want %d, %d went on: %s", path, test.headers, test.query, want, len(came), answer)
			}
			noSecret(t, "an answer", answer)
			for _, got := range came {
				sent := fmt.Sprint(got)
				if strings.Contains(sent, "token-") || strings.Contains(sent, "sk-real") != (path == "/keyed") {
					t.Errorf("%s %s%s: the upstream got %s", path, test.headers, test.query, sent)
				}
			}
		}
	}
	for _, page := range []string{"/", "/metrics"} {
		if status, answer := wire(t, p.admin, raw("GET", page, "")); status != 401 {
			t.Errorf("%s without a token: %.200s", page, answer)
		}
		for _, bring := range []string{"X-Ratelimit-Token: ", "Authorization: Bearer "} {
			status, answer := wire(t, p.admin, raw("GET", page, "", bring+aliceToken))
			if noSecret(t, page, answer); status != 200 {
				t.Errorf("%s with a token: %.200s", page, answer)
			}
		}
	}
	noSecret(t, "the log", p.log.String())
}

// A key is told nowhere, whatever the upstream does with it.
func TestHostileKeys(t *testing.T) {
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(conn, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+r.URL.RawQuery+" is no answer\r\n\r\n") //nolint:errcheck // as it comes
		conn.Close()
	})
	p := startWith(t, []string{"REAL=sk-real"}, "--upstream", "keyed="+u.URL, "--upstream", "plain="+u.URL, "--upstream", "gone=http://127.0.0.1:1",
		"--key-env", "keyed=REAL", "--rpm", "1000", "--log-level", "debug")
	for _, request := range []string{
		raw("POST", "/keyed/v1/chat/completions?x=1&key=sk-own", chat("m"), "X-Api-Key: sk-own"),
		raw("POST", "/plain/v1/chat/completions?x=1&key=sk-own", chat("m")),
		raw("POST", "/plain/v1/unheard/of?key=sk-own", chat("m"), "X-Api-Key: sk-own"),
		raw("POST", "/plain/v1/chat/completions", chat("m"), "Authorization: Bearer sk-own"),
		raw("POST", "/plain/v1beta/models/gemini-2.5-flash:generateContent?key=sk-own", `{"contents":[]}`),
		raw("GET", "/plain/v1beta/models?key=sk-own", ""),
		raw("POST", "/gone/v1/chat/completions?key=sk-own", chat("m"), "Authorization: Bearer sk-own"),
		raw("GET", "/none/v1/models?key=sk-own", ""),
	} {
		status, answer := wire(t, p.url, request)
		if noSecret(t, "an answer", answer); status < 400 {
			t.Errorf("%s: %s", request, answer)
		}
	}
	for _, page := range []string{"/", "/metrics"} {
		_, answer := get(t, p.admin+page)
		noSecret(t, page, answer)
	}
	noSecret(t, "the log", p.log.String())
}

// With --per-key no call can go on another account than that of its key.
func TestHostileAccounts(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1", "--max-wait", "1ms", "--per-key")
	for _, headers := range []string{
		"X-Api-Key: sk-fake1\r\nX-Api-Key: sk-own", "X-Api-Key: sk-own\r\nX-Api-Key: sk-fake", "Authorization: Bearer sk-fake\r\nX-Api-Key: sk-own",
		"Authorization: Bearer sk-own\r\nAuthorization: Bearer sk-fake",
	} {
		if status, answer := wire(t, p.url, raw("POST", "/v1/messages", chat("m"), headers)); status != 400 || !strings.Contains(answer, "two keys") {
			t.Errorf("%s: %s", headers, answer)
		}
	}
	want := 200
	for _, headers := range []string{
		"X-Api-Key: sk-own\r\nAuthorization: Bearer sk-own", "X-Api-Key: sk-own", "Authorization: BEARER  sk-own", "Api-Key: sk-own\r\nConnection: X-Api-Key",
	} {
		if status, answer := wire(t, p.url, raw("POST", "/v1/messages", chat("m"), headers)); status != want {
			t.Errorf("%s: want %d: %s", headers, want, answer)
		}
		want = 429
	}
}

// A file of tokens that others may read, or that is wrong, is refused, and nothing of it is told.
func TestHostileTokenFiles(t *testing.T) {
	open := tokenFile(t, "alice "+aliceToken+"\n")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		open:                                "chmod 600",
		tokenFile(t, "alice token-0123\n"):  "line 1",
		tokenFile(t, aliceToken+" alice\n"): "line 1",
		tokenFile(t, "alice "+aliceToken+"\n\n"+aliceToken+" "+aliceToken+"\n"): "line 3",
		tokenFile(t, aliceToken+"\n"):                                           "line 1",
		tokenFile(t, "alice "+aliceToken+" batch flow more\n"):                  "line 1",
		tokenFile(t, ","+aliceToken+"\n"):                                       "line 1",
		tokenFile(t, "# alice "+aliceToken+"\n"):                                "no client",
		tokenFile(t, "alice "+strings.Repeat(aliceToken, 10_000)+"\n"):          "too long",
		"/nowhere/tokens": "no such file",
	} {
		status, stdout, stderr := run(t, "proxy", "--upstream", "https://a.test", "--listen", "127.0.0.1:0", "--admin", "", "--token-file", path)
		if noSecret(t, "the refusal", stdout+stderr); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("want %s: status %d, %s", want, status, stderr)
		}
	}
}

// certificate makes a certificate for this machine, and returns the files of it and of its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return file(t, "cert.pem", string(text)), file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}))), pool
}

// What other machines reach needs tokens, and TLS unless the operator says otherwise.
func TestHostileAddresses(t *testing.T) {
	tokens := tokenFile(t, "alice "+aliceToken+"\n")
	cert, key, _ := certificate(t)
	secure := []string{"--tls-cert", cert, "--tls-key", key}
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{nil, "needs --token-file"},
		{secure, "needs --token-file"},
		{[]string{"--insecure-http"}, "needs --token-file"},
		{[]string{"--token-file", tokens}, "needs --tls-cert"},
		{[]string{"--token-file", tokens, "--tls-cert", cert}, "one does not go without"},
		{[]string{"--token-file", tokens, "--tls-cert", cert, "--tls-key", tokens}, "--tls-key"},
	} {
		for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "203.0.113.1:0", "0:0", "example.test:0"} {
			for _, on := range [][]string{{"--listen", address, "--admin", ""}, {"--listen", "127.0.0.1:0", "--admin", address}} {
				flags := slices.Concat([]string{"proxy", "--upstream", "https://a.test"}, on, test.flags)
				status, _, stderr := run(t, flags...)
				if noSecret(t, "the refusal", stderr); status != 2 || !strings.Contains(stderr, test.want) {
					t.Errorf("%q: status %d, %s", flags, status, stderr)
				}
			}
		}
	}
	u := provider(t, nil)
	for _, flags := range [][]string{{"--insecure-http"}, secure} {
		p := start(t, append(flags, "--listen", "0.0.0.0:0", "--admin", "0.0.0.0:0", "--token-file", tokens, "--upstream", u.URL)...)
		if !strings.Contains(p.admin, "://") {
			t.Errorf("%q: no admin port", flags)
		}
	}
}

// TLS, with HTTP/1.1 and HTTP/2, opens no other door.
func TestHostileTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	u := provider(t, nil)
	tokens := tokenFile(t, "alice "+aliceToken+"\n")
	p := start(t, "--listen", "0.0.0.0:0", "--upstream", u.URL, "--rpm", "1000", "--token-file", tokens, "--tls-cert", cert, "--tls-key", key)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.url, "https://"))
	for major, protocols := range map[int]*http.Protocols{1: new(http.Protocols), 2: new(http.Protocols)} {
		protocols.SetHTTP1(major == 1)
		protocols.SetHTTP2(major == 2)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: protocols}}
		defer client.CloseIdleConnections()
		for _, test := range []struct {
			status  int
			headers []string
		}{
			{200, []string{"X-Ratelimit-Token", aliceToken}},
			{401, nil},
			{401, []string{"X-Ratelimit-Token", bobToken}},
			{421, []string{"X-Ratelimit-Token", aliceToken, "Host", "evil.test"}},
			{403, []string{"X-Ratelimit-Token", aliceToken, "Origin", "https://evil.test"}},
			{403, []string{"X-Ratelimit-Token", aliceToken, "Origin", "null"}},
		} {
			before := len(u.requests())
			resp, err := client.Do(request(t, "POST", "https://127.0.0.1:"+port+"/v1/chat/completions", chat("m"), test.headers...))
			if err != nil {
				t.Errorf("HTTP/%d, %.80q: %v", major, test.headers, err)
				continue
			}
			if body := read(t, resp); resp.StatusCode != test.status || resp.ProtoMajor != major || (len(u.requests())-before == 1) != (test.status == 200) {
				t.Errorf("HTTP/%d, %.80q: %s %d, %s", major, test.headers, resp.Proto, resp.StatusCode, body)
			}
		}
	}
	if status, answer := wire(t, strings.Replace(p.url, "https", "http", 1), raw("GET", "/v1/models", "", "X-Ratelimit-Token: "+aliceToken)); status != 400 {
		t.Errorf("without TLS: %s", answer)
	}
	noSecret(t, "the log", p.log.String())
}
