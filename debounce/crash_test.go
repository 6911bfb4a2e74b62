package debounce_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

const crashVariable = "DEBOUNCE_TEST_CRASH"

// notCrashed is the exit code of a program that went on. Testing makes a panic of 0.
const notCrashed = 7

// TestPanicCrashesTheProgram runs itself again in another process, which must not
// come to its end.
func TestPanicCrashesTheProgram(t *testing.T) {
	if how := os.Getenv(crashVariable); how != "" {
		crashes[how](how)
		os.Exit(notCrashed)
	}
	for how := range crashes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPanicCrashesTheProgram$")
			cmd.Env = append(os.Environ(), crashVariable+"="+how)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if !strings.Contains(string(out), "panic: boom "+how) {
				t.Errorf("the output does not name the panic:\n%s", out)
			}
		})
	}
}

// boom is what actions panic with. The runtime asks for its text when the goroutine
// has been unwound, before it ends the program: other goroutines have that long to
// go on as if nothing had happened.
type boom string

func (b boom) Error() string {
	time.Sleep(300 * ms)
	return "boom " + string(b)
}

// crashes are ways to panic. They return if the program does not crash.
var crashes = map[string]func(how string){
	"leading": func(how string) {
		debounce.New(debounce.Options{Leading: true}, func(int) { panic(boom(how)) }).Trigger(1)
		<-time.After(time.Minute)
	},
	"trailing": func(how string) {
		debounce.New(debounce.Options{}, func(int) { panic(boom(how)) }).Trigger(1)
		<-time.After(time.Minute)
	},
	"after a run": func(how string) {
		var d *debounce.Debouncer[int]
		d = debounce.New(debounce.Options{}, func(value int) {
			if value == 2 {
				panic(boom(how))
			}
			d.Trigger(2)
		})
		d.Trigger(1)
		<-time.After(time.Minute)
	},
	"in OnPanic": func(how string) {
		opts := debounce.Options{OnPanic: func(any) { panic(boom(how)) }}
		debounce.New(opts, func(int) { panic("in the action") }).Trigger(1)
		<-time.After(time.Minute)
	},
	// Stop must not say that all is well, for then the program may end as if it were.
	"while Stop waits": func(how string) {
		d := debounce.New(debounce.Options{Delay: time.Hour}, func(int) { panic(boom(how)) })
		d.Trigger(1)
		d.Stop(context.Background())
	},
	// Nor is there another run.
	"while a value waits": func(how string) {
		var d *debounce.Debouncer[int]
		d = debounce.New(debounce.Options{Delay: time.Hour, Leading: true, Trailing: true}, func(value int) {
			if value == 2 {
				os.Exit(notCrashed)
			}
			d.Trigger(2)
			d.Flush()
			panic(boom(how))
		})
		d.Trigger(1)
		<-time.After(time.Minute)
	},
}
