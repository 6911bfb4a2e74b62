package querytest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server, or an answer that needs some seconds of data, may take.
const patience = 60 * time.Second

// server is a Prometheus.
type server struct{ url string }

// startPrometheus starts a Prometheus on a port of its own that scrapes a target each second, and
// ends it with the test.
func startPrometheus(t *testing.T, target, features string) *server {
	t.Helper()
	binary := need(t, "prometheus")
	folder := t.TempDir()
	alerts, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: agents
    static_configs: [{targets: [%q]}]
`, alerts, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var log bytes.Buffer
	cmd := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--log.level=warn", "--enable-feature="+features)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			cmd.Process.Kill()
			t.Error("Prometheus did not end")
		}
		if t.Failed() {
			t.Logf("Prometheus: %s", &log)
		}
	})
	s := &server{"http://" + address}
	within(t, func() error {
		response, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", response.Status)
		}
		return nil
	})
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// within tries until there is no error, and fails the test when patience ends.
func within(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get asks the API of Prometheus.
func (s *server) get(path string, values url.Values, data any) error {
	response, err := http.Get(s.url + "/api/v1/" + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// series is how many series a query returns.
func (s *server) series(query string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := s.get("query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// startExample builds examples/metrics and starts it. The function that it returns ends the program
// and checks its verdict.
func startExample(t *testing.T) (address string, end func()) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "metrics")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../examples/metrics", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples/metrics: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-serve")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // which fails where end was called
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		if u, found := strings.CutPrefix(lines.Text(), "metrics: http://"); found {
			address = strings.TrimSuffix(u, "/metrics")
		}
	}
	verdict := make(chan string, 1)
	go func() {
		var last string
		for lines.Scan() {
			last = lines.Text()
		}
		verdict <- last
	}()
	if address == "" {
		t.Fatal("examples/metrics does not tell its address")
	}
	return address, func() {
		cmd.Process.Signal(syscall.SIGTERM)
		last := <-verdict
		if err := cmd.Wait(); err != nil || !strings.Contains(last, "PASS") {
			t.Errorf("examples/metrics: %v, %s", err, last)
		}
	}
}

// TestPrometheus has servers scrape examples/metrics, one that stores classic histograms and one
// that stores native ones, and asks them the dashboard's queries.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	need(t, "prometheus")
	address, end := startExample(t)
	defer end()
	classic := startPrometheus(t, address, "exemplar-storage")
	native := startPrometheus(t, address, "native-histograms")
	for name, s := range map[string]*server{"classic": classic, "native": native} {
		t.Run(name, func(t *testing.T) {
			for _, q := range dashboardQueries(t) {
				within(t, func() error { return s.answers(q) })
			}
			for _, q := range alertQueries(t) {
				if _, err := s.series(q.expr); err != nil {
					t.Errorf("%s: %v", q.where, err)
				}
			}
		})
	}
	within(t, func() error {
		var data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		err := classic.get("query_exemplars", url.Values{
			"query": {"ratelimit_lease_duration_seconds_bucket"}, "start": {"0"}, "end": {fmt.Sprint(time.Now().Unix() + 60)},
		}, &data)
		if err == nil && (len(data) == 0 || len(data[0].Exemplars) == 0 || data[0].Exemplars[0].Labels["trace_id"] == "") {
			err = fmt.Errorf("no exemplars: %v", data)
		}
		return err
	})
}

// unanswered are the metrics of which the example has none: its provider does not report the usage
// of others, and no pool searches for its limits.
var unanswered = regexp.MustCompile("ratelimit_(pool_)?quota_external|ratelimit_pool_quota_found")

// answers reports that a server does not answer a query, or answers with nothing.
func (s *server) answers(q query) error {
	n, err := s.series(q.expr)
	if err == nil && n == 0 && !unanswered.MatchString(q.expr) {
		err = fmt.Errorf("no data for %s", q.expr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", q.where, err)
	}
	return nil
}
