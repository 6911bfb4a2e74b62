package httplimit_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"dappco.re/go/core/go-ratelimit/httplimit"
)

// upload returns a form with a file of so many bytes.
func upload(t *testing.T, size int) (body *bytes.Buffer, contentType string) {
	t.Helper()
	body = new(bytes.Buffer)
	form := multipart.NewWriter(body)
	file, err := form.CreateFormFile("file", "a.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return body, form.FormDataContentType()
}

// The request is handed back also if the next handler panics and a handler around recovers.
func TestSettleHandsTheRequestBackAfterPanic(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	spilled := 0
	limited := httplimit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 10); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(temp)
		if err != nil {
			t.Error(err)
		}
		spilled = len(entries)
		panic("of the next handler")
	}), httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 100)), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { recover() }()
		limited.ServeHTTP(w, r)
	}))
	body, contentType := upload(t, 1<<20)
	r, err := http.NewRequest(http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Tenant", "acme")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	server.Close() // waits for the end of the request
	if left, err := os.ReadDir(temp); err != nil || spilled == 0 || len(left) > 0 {
		t.Errorf("%d files were there meanwhile, want some; left behind: %v, %v", spilled, left, err)
	}
}

// The server removes the files of a form that is too large for memory, and handlers around see the
// pattern that the mux has found, also where limits are settled.
func TestSettleHandsTheRequestBack(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	mux := http.NewServeMux()
	spilled := 0
	mux.HandleFunc("POST /v1/files/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 10); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(temp)
		if err != nil {
			t.Error(err)
		}
		spilled = len(entries)
		io.WriteString(w, r.PathValue("id"))
	})
	limited := httplimit.Handler(mux, httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 100)), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	var pattern, field string
	var served sync.WaitGroup
	served.Add(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer served.Done()
		limited.ServeHTTP(w, r)
		pattern = r.Pattern
		if r.MultipartForm != nil && len(r.MultipartForm.File["file"]) == 1 {
			field = r.MultipartForm.File["file"][0].Filename
		}
	}))
	body, contentType := upload(t, 1<<20)
	r, err := http.NewRequest(http.MethodPost, server.URL+"/v1/files/7", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Tenant", "acme")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	served.Wait()
	server.Close() // waits for the end of the request
	if string(answer) != "7" || spilled == 0 {
		t.Fatalf("the answer is %q, and %d files were there meanwhile, want 7 and some", answer, spilled)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if pattern != "POST /v1/files/{id}" || field != "a.bin" {
		t.Errorf("outside, the pattern is %q and the file %q", pattern, field)
	}
}
