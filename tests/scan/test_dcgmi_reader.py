"""The tables of dcgmi."""

from __future__ import annotations

from scan.reading import read


def test_xids_of_a_table_become_metrics():
    kind, lines = read(
        "#Entity    GPUTL   XIDER\nID\nGPU 0      98      0\nGPU 1      0       120\nGPU 2      N/A     N/A\nGPU 3      35\n"
    )
    assert kind == "dcgmi"
    assert [line.text for line in lines if line.text.startswith("DCGM_")] == ['DCGM_FI_DEV_XID_ERRORS{gpu="1"} 120']
    assert [line.line for line in lines if line.text.startswith("DCGM_")] == [4]


def test_a_number_that_python_refuses_to_convert():
    """Found by fuzzing: thousands of digits are no crash."""
    _, lines = read(
        "#Entity    GPUTL   XIDER\nID\nGPU 0      98      " + "0" * 5000 + "\nGPU 1      98      " + "7" * 5000 + "\n"
    )
    assert [line.text[:34] for line in lines if line.text.startswith("DCGM_")] == ['DCGM_FI_DEV_XID_ERRORS{gpu="1"} 77']


def test_a_table_without_xids_stays_what_it_is():
    _, lines = read("#Entity    GPUTL\nGPU 0      79\n")
    assert [line.text for line in lines] == ["#Entity    GPUTL", "GPU 0      79"]


def test_links_are_counted():
    table = (
        "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n    gpuId 0:\n"
        "        D D D _\n    gpuId 1:\n        U U D X\nNvSwitches:\n    No NvSwitches found.\n"
    )
    kind, lines = read(table)
    assert kind == "dcgmi"
    assert [line.text for line in lines if line.text.startswith("nvlink ")] == [
        "nvlink device=0 up=0 down=3",
        "nvlink device=1 up=2 down=1",
    ]
