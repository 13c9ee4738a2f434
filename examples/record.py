"""Keep what a host said, and play it back: byte by byte, without a key and without the host."""

from tempfile import TemporaryDirectory

from midstream import Client, SyncSession
from midstream.recording import Recorder, replay


def ask(client: Client | None = None) -> str:
    with SyncSession("moonshot/kimi-k2.5", client=client) as session:
        return session.send("Name a river.").result().text


with TemporaryDirectory() as cassette:
    recorder = Recorder(cassette)
    said = ask(Client(recorder=recorder))
    print(said)
    print(recorder.saved[0].name)

    with replay(cassette, pace="bytes"):
        assert ask() == said
    print("the same, byte by byte")
