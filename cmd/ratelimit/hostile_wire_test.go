package main_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// hidden is a request that a smuggler would have the upstream see. Without a token it is nobody's.
const hidden = "GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

// smuggled are requests that another server may read otherwise: how they are framed, the bytes
// behind the head, and the body that the upstream gets; "-" for none.
var smuggled = []struct{ headers, bytes, body string }{
	// Two framings: the chunks hold.
	{"Content-Length: 4\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: chunked\r\nContent-Length: 300", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: Chunked\r\nContent-Length: 0", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Content-Length: 2\r\nContent-Length: 2", "{}" + hidden, "{}"},
	{"Content-Length: 2\r\nConnection: Content-Length, Transfer-Encoding", "{}" + hidden, "{}"},
	{"Transfer-Encoding:\tchunked", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: chunked\t ", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding:\r\n chunked", "2\r\n{}\r\n0\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: chunked", "2;ext=\"a\"\r\n{}\r\n0;last\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: chunked", "000002\r\n{}\r\n000\r\n\r\n" + hidden, "{}"},
	{"Transfer-Encoding: chunked\r\nTrailer: X-Sum", "2\r\n{}\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nX-Ratelimit-Token: " + aliceToken + "\r\n\r\n" + hidden, "{}"},
	{"X-Folded: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 2", "{}" + hidden, "{}"},
	{"Content_Length: 9\r\nTransfer_Encoding: chunked\r\nContent-Length: 2", "{}" + hidden, "{}"},
	{"X-Lines: a\nContent-Length: 2", "{}" + hidden, "{}"},
	// These are no requests.
	{"Content-Length: 2\r\nContent-Length: 40", "{}" + hidden, "-"},
	{"Content-Length: 2, 40", "{}" + hidden, "-"},
	{"Content-Length: +2", "{}" + hidden, "-"},
	{"Content-Length: 0x2", "{}" + hidden, "-"},
	{"Content-Length: -2", "{}" + hidden, "-"},
	{"Content-Length: 18446744073709551618", "{}" + hidden, "-"},
	{"Content-Length : 2", "{}" + hidden, "-"},
	{"Transfer-Encoding : chunked\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked, identity", "2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: identity\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: gzip, chunked", "2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: xchunked\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: \"chunked\"\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: chunked\x0b\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: \x00chunked\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding\x00: chunked\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"X-Nul: a\x00b\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"X-Return: a\rTransfer-Encoding: chunked\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"no colon\r\nContent-Length: 2", "{}" + hidden, "-"},
	{": no name\r\nContent-Length: 2", "{}" + hidden, "-"},
	{"Transfer-Encoding: chunked", "2\n{}\n0\n\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "2\r\n{}XX0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "2;a\nb\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "-2\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "10000000000000002\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", "2;" + strings.Repeat("x", 70_000) + "\r\n{}\r\n0\r\n\r\n" + hidden, "-"},
	{"Transfer-Encoding: chunked", strings.Repeat("1;"+strings.Repeat("x", 3_000)+"\r\n \r\n", 60) + "0\r\n\r\n" + hidden, "-"},
}

// framings returns the lines of a head that frame its body.
func framings(head string) (lines []string) {
	for line := range strings.SplitSeq(head, "\r\n") {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name = strings.TrimSpace(name); name == "content-length" || name == "transfer-encoding" {
			lines = append(lines, line)
		}
	}
	return lines
}

// The upstream gets exactly one request with one framing, or none, and what is behind it stays a
// request of its own.
func TestHostileFraming(t *testing.T) {
	u := newTap(t)
	p := start(t, "--upstream", u.url, "--rpm", "1000", "--token-file", tokenFile(t, "alice "+aliceToken+"\n"))
	for _, test := range smuggled {
		head := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Ratelimit-Token: " + aliceToken + "\r\n" + test.headers + "\r\n\r\n"
		status, answer := wire(t, p.url, head+test.bytes+raw("GET", "/last", ""))
		got := u.take()
		if test.body == "-" {
			if (status != 400 && status != 501) || got != "" {
				t.Errorf("%.200q:\nthe client got %.300s\nthe upstream got %.500q", head+test.bytes, answer, got)
			}
			continue
		}
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		framed := framings(head)
		if status != 200 || !strings.HasPrefix(head, "POST /v1/chat/completions HTTP/1.1\r\n") || strings.Count(got, " HTTP/1.1\r\n") != 1 || len(framed) != 1 ||
			!strings.Contains(answer, "401 Unauthorized") || strings.Contains(got, "token-") {
			t.Errorf("%.200q:\nthe client got %.300s\nthe upstream got %.500q", test.headers+test.bytes, answer, got)
			continue
		}
		if strings.HasPrefix(framed[0], "Transfer-Encoding: chunked") {
			body, _, _ = strings.Cut(strings.TrimPrefix(body, "2\r\n"), "\r\n0\r\n")
		}
		if body != test.body {
			t.Errorf("%.200q: the upstream got the body %q", test.headers, body)
		}
	}
	// HTTP/1.0 has no chunks: the call has no body, and the connection ends.
	_, answer := wire(t, p.url, "POST /v1/chat/completions HTTP/1.0\r\nHost: 127.0.0.1\r\nX-Ratelimit-Token: "+aliceToken+
		"\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"+hidden)
	if got := u.take(); strings.Count(answer, "HTTP/1.") > 2 || len(framings(got)) != 1 || strings.Contains(got, "{}") || strings.Contains(got, "hidden") {
		t.Errorf("HTTP/1.0: the client got %s\nthe upstream got %q", answer, got)
	}
	p.stop(syscall.SIGTERM)
	u.conns.Wait()
	if late := u.take(); late != "" {
		t.Errorf("the upstream also got %q", late)
	}
}

// No path leads to another host than the upstream's, and none out of the path of the upstream.
func TestHostilePaths(t *testing.T) {
	one, other := newTap(t), newTap(t)
	p := start(t, "--upstream", "openai="+one.url+"/base", "--upstream", "other="+other.url+"/v2", "--rpm", "1000")
	for _, test := range []struct{ target, uri string }{
		{"/openai/../other/v1/models", ""}, {"/openai/..", ""}, {"/openai/./../../v1/models", ""}, {"/openai/.", ""},
		{"/openai/%2e%2e/other/v1/models", ""}, {"/openai/.%2E/other", ""}, {"/openai/%2e%2e%2fother", ""}, {"/openai/..%2fother", ""},
		{"/openai/x%2f..%2f..%2fother", ""}, {"/openai/..\\other", ""}, {"/openai/..%5cother", ""}, {"/openai/..;/other", ""}, {"/openai/..;a=b/x", ""},
		{"/../openai/v1/models", ""}, {"/openai/v1/models/../..?x=1", ""},
		{"//evil.test/v1/models", ""}, {"///evil.test", ""}, {"//evil.test:80@x/openai/", ""}, {"/%2fevil.test/", ""}, {"/\\evil.test/", ""},
		{"/openai@evil.test/v1/models", ""}, {"/openai:80@evil.test/", ""}, {"/openai.evil.test/", ""}, {"/%6fpenai/v1/models", ""}, {"/openai%2fv1", ""},
		{"/openai%00/v1/models", ""}, {"/openai/%zz", ""}, {"/openai/\x00", ""},
		{"/openai//evil.test/v1/models", "/base//evil.test/v1/models"},
		{"/openai/@evil.test:80/v1/models", "/base/@evil.test:80/v1/models"},
		{"/openai/https://evil.test/x", "/base/https://evil.test/x"},
		{"/openai/...?to=/../..", "/base/...?to=/../.."},
		{"/openai/v1/..a/.b?%2e%2e/&url=https://evil.test", "/base/v1/..a/.b?%2e%2e/&url=https://evil.test"},
		{"/openai?@evil.test/", "/base?@evil.test/"},
		{"/openai/a%0d%0aX-Evil:%20b", "/base/a%0d%0aX-Evil:%20b"},
	} {
		status, answer := wire(t, p.url, raw("GET", test.target, "", "X-Forwarded-Host: evil.test", "X-Original-URL: /other", "X-Rewrite-URL: https://evil.test/"))
		got, elsewhere := one.take(), other.take()
		if elsewhere != "" {
			t.Errorf("%q: the other upstream got %q", test.target, elsewhere)
		}
		if test.uri == "" {
			if got != "" || (status != 400 && status != 404) {
				t.Errorf("%q: the upstream got %q, the client %s", test.target, got, answer)
			}
			continue
		}
		host := strings.TrimPrefix(one.url, "http://")
		if want := "GET " + test.uri + " HTTP/1.1\r\nHost: " + host + "\r\n"; status != 200 || !strings.HasPrefix(got, want) || strings.Count(got, "Host: ") != 2 {
			t.Errorf("%q: want %q, the upstream got %q, the client %s", test.target, want, got, answer)
		}
	}
}

// The only upstream gets every path, on its own host.
func TestHostilePathsOfOne(t *testing.T) {
	u := newTap(t)
	p := start(t, "--upstream", u.url, "--rpm", "1000")
	for _, target := range []string{"//evil.test/x", "///evil.test/x", "/@evil.test/", "/:80", "/?x", "//", "/a;b=c/%2f%41//"} {
		status, answer := wire(t, p.url, raw("GET", target, ""))
		if got := u.take(); status != 200 || !strings.HasPrefix(got, "GET "+target+" HTTP/1.1\r\nHost: "+strings.TrimPrefix(u.url, "http://")+"\r\n") {
			t.Errorf("%q: the upstream got %q, the client %s", target, got, answer)
		}
	}
}

// The client says what goes no further than here, but cannot make more of it, nor take a header of
// the proxy's own along.
func TestHostileHeaders(t *testing.T) {
	u := newTap(t)
	p := startWith(t, []string{"REAL=sk-real"}, "--upstream", "keyed="+u.url, "--upstream", "plain="+u.url, "--key-env", "keyed=REAL", "--rpm", "1000")
	for _, test := range []struct{ path, headers, with, without string }{
		{"/plain", "Connection: X-Api-Key\r\nX-Api-Key: sk-own", "", "X-Api-Key"},
		{"/plain", "Connection: close, x-api-key , authorization\r\nX-Api-Key: sk-own\r\nAuthorization: Bearer sk-own", "", "sk-own"},
		{"/keyed", "Connection: Authorization, X-Api-Key\r\nAuthorization: Bearer sk-own", "Authorization: Bearer sk-real\r\n", "sk-own"},
		{"/keyed", "Connection: X-Ratelimit-Class\r\nX-Ratelimit-Class: batch\r\nX-Ratelimit-Unheard-Of: x", "Bearer sk-real", "X-Ratelimit"},
		{"/plain", "Connection: Host, Content-Length", "Host: 127.0.0.1:", "Connection"},
		{"/plain", "Keep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authorization: Basic sk-own\r\nTE: gzip\r\nX-Other: y", "X-Other: y", "sk-own"},
		{"/plain", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", "Content-Length: 76", "h2c"},
		{"/plain", "X_Api_Key: a\r\nX-Api_Key: b", "X_api_key: a\r\n", "X-Forwarded"},
	} {
		status, answer := wire(t, p.url, strings.Replace(raw("POST", test.path+"/v1/chat/completions", chat("m"), test.headers), "Connection: close\r\n", "", 1)+raw("GET", "/none", ""))
		if got := u.take(); status != 200 || !strings.Contains(got, test.with) || strings.Contains(got, test.without) || !strings.HasSuffix(got, chat("m")) {
			t.Errorf("%q: the upstream got %q, the client %s", test.headers, got, answer)
		}
	}
}

// A signature holds for one host, so that a request with one is refused in words.
func TestHostileSignatures(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	const signature = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=sk-own"
	for _, test := range []struct{ query, headers string }{
		{"", "Authorization: " + signature},
		{"", "Authorization: Bearer x\r\nAuthorization: " + signature},
		{"", "Authorization: AWS4-ECDSA-P256-SHA256 Credential=a"},
		{"?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a&X-Amz-Signature=sk-own", "Accept: */*"},
	} {
		status, answer := wire(t, p.url, raw("POST", "/model/anthropic.claude-3/converse"+test.query, `{"messages":[]}`, test.headers))
		if noSecret(t, "the answer", answer); status != http.StatusBadRequest || !strings.Contains(answer, "Bedrock works with an API key") || len(u.requests()) > 0 {
			t.Errorf("%s: %s", test.headers, answer)
		}
	}
	noSecret(t, "the log", p.log.String())
}
