package lives

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

var record = flag.Bool("record", false, "write the recorded logs anew")

// corpus are the recorded logs: what processes sent to a store in a life with outages. The first
// line of each is the image that the log began with, then each entry has one, with the digest of
// all outcomes up to it; the last line has the hash of the state that they lead to.
const (
	corpus       = "testdata/corpus"
	sizeOfCorpus = 7
	firstOfRules = 5 // the first that was recorded with the present fleet.Rules
)

// TestCorpus has an engine that decides otherwise than the one before fail: processes of two
// versions that share a quota would come to two states.
func TestCorpus(t *testing.T) {
	if *record {
		for seed := uint64(firstOfRules); seed < sizeOfCorpus; seed++ {
			image, entries := recordCrew(t, seed)
			out, err := replayed(image, entries)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(corpus, fmt.Sprintf("%d.log", seed)), out, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	paths, err := filepath.Glob(corpus + "/*.log")
	if err != nil || len(paths) < sizeOfCorpus {
		t.Fatal(len(paths), "logs are recorded", err)
	}
	met := make(map[string]int)
	for _, path := range paths {
		recorded, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		image, entries, err := readLog(recorded)
		if err != nil {
			t.Fatal(path, err)
		}
		now, err := replayed(image, entries)
		if err != nil {
			t.Fatal(path, err)
		}
		if line := lineThatDiffers(recorded, now); line > 0 {
			t.Errorf("%s:%d: this engine decides otherwise than the one that the log was recorded with. "+
				"In a fleet of both, processes would differ. Raise fleet.Rules, have the engine do as before "+
				"while fleet.State.Rules is below it, and record a log of each number: go test %s -run TestCorpus -record",
				path, line, "./internal/test/lives")
		}
		for _, e := range entries {
			if c, err := fleet.Decode(e.Command); err == nil {
				met[kindOf(c)]++
			}
		}
	}
	// A log in which a command is missing would not notice that it does otherwise.
	for _, kind := range []string{
		"fleet.Join", "fleet.Alive", "fleet.Outage", "fleet.Answer", "fleet.Gone", "fleet.Bye", "fleet.Tick",
		"engine.Admit", "engine.Settle", "engine.Arrive", "engine.Record", "engine.Enter", "engine.Leave", "engine.Cool",
		"engine.Observe", "engine.Refuse", "engine.SetQuota", "engine.SetPool", "engine.SetClasses", "engine.Reset",
		"engine.RemovePool", "engine.Bounds", "engine.Charged",
	} {
		if met[kind] == 0 {
			t.Errorf("no log has a %s; they have %v", kind, met)
		}
	}
}

func kindOf(c fleet.Command) string {
	if verb, is := c.(fleet.Verb); is {
		return fmt.Sprintf("%T", verb.Command)
	}
	return fmt.Sprintf("%T", c)
}

// lineThatDiffers returns the number of the first line that is another one; 0 for none.
func lineThatDiffers(a, b []byte) int {
	was, is := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || !bytes.Equal(was[i], is[i]) {
			return i + 1
		}
	}
	return 0
}

// replayed applies entries to an image, and returns what a recorded log says of them.
func replayed(image []byte, entries []store.Entry) ([]byte, error) {
	s, err := fleet.Read(image, nil)
	if err != nil {
		return nil, err
	}
	out := fmt.Appendln(nil, base64.StdEncoding.EncodeToString(image))
	for i := range entries {
		e := &entries[i]
		s.Apply(e)
		out = fmt.Appendf(out, "%d %d %d %d %d %d %s %x\n", e.At.Seq, e.Stamp.Instant, e.Stamp.Wall, e.Process, e.N, e.Expect,
			base64.StdEncoding.EncodeToString(e.Command), uint64(s.Digest()))
	}
	return fmt.Appendf(out, "%x\n", crc32.ChecksumIEEE(s.AppendImage(nil))), nil
}

// readLog reads a recorded log.
func readLog(recorded []byte) (image []byte, entries []store.Entry, err error) {
	lines := bufio.NewScanner(bytes.NewReader(recorded))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if image == nil {
			if image, err = base64.StdEncoding.DecodeString(lines.Text()); err != nil {
				return nil, nil, err
			}
			continue
		}
		if !strings.Contains(lines.Text(), " ") {
			break
		}
		var e store.Entry
		var command, digest string
		if _, err := fmt.Sscan(lines.Text(), &e.At.Seq, &e.Stamp.Instant, &e.Stamp.Wall, &e.Process, &e.N, &e.Expect, &command, &digest); err != nil {
			return nil, nil, err
		}
		if e.Command, err = base64.StdEncoding.DecodeString(command); err != nil {
			return nil, nil, err
		}
		entries = append(entries, e)
	}
	return image, entries, lines.Err()
}
