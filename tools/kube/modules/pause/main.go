// What the containers of the whole-node test run: nothing for a while, or as much as they are let.
//
//	pause                  until it is asked to end (also what holds a pod's namespaces)
//	pause 5s               for that long, then success
//	pause burn 2           two threads that never rest
//	pause read FILE        prints the file, then as without arguments
//	pause linger 5s FILE   takes that long to end when it is asked to, and writes the file last
//	pause hold 600         holds so many MiB of memory
//	pause write FILE       writes to the disk without end, past the page cache where it can
//	pause serve 200 20 FILE
//	                       a service: 200 requests a second, whether or not it keeps up, each of which hashes 64 KiB 20
//	                       times; appends a line for each second to FILE
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func burn(threads int) {
	runtime.GOMAXPROCS(threads + 1) // one stays free for signals
	for range threads {
		go func() {
			for {
			}
		}()
	}
}

func read(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		fail(err.Error())
	}
	os.Stdout.Write(content)
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil || found < 1 {
		fail("no number above 0: " + text)
	}
	return found
}

func duration(text string) time.Duration {
	span, err := time.ParseDuration(text)
	if err != nil {
		fail("usage: pause [DURATION | burn THREADS | read FILE | linger DURATION FILE | hold MIB | write FILE | serve RATE ROUNDS FILE]")
	}
	return span
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(2)
}

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	var done <-chan time.Time
	last := func() {}
	switch {
	case len(os.Args) == 1:
	case len(os.Args) == 3 && os.Args[1] == "burn":
		burn(number(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "read":
		read(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "linger":
		span := duration(os.Args[2])
		last = func() {
			time.Sleep(span)
			if err := os.WriteFile(os.Args[3], []byte("ended by itself\n"), 0o644); err != nil {
				fail(err.Error())
			}
		}
	case len(os.Args) == 3 && os.Args[1] == "hold":
		held := hold(number(os.Args[2]))
		last = func() { runtime.KeepAlive(held) }
	case len(os.Args) == 3 && os.Args[1] == "write":
		go write(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "serve":
		go serve(number(os.Args[2]), number(os.Args[3]), os.Args[4])
	default:
		done = time.After(duration(os.Args[1]))
	}
	select {
	case <-asked:
		last()
	case <-done:
	}
}
